"""The style sheet of a report: phone first, light and dark, and print."""

from __future__ import annotations

import re

__all__ = ["CSS", "LIGHT_SVG"]

_LIGHT = (
    "--bg:#fff;--ink:#1b1f24;--soft:#56606b;--rule:#d8dde2;--card:#f5f7f9;"
    "--main:#0b62a4;--other:#7b8794;--bad:#b3261e;--good:#1a7546;--warn:#835500"
)
_DARK = (
    "--bg:#14171a;--ink:#e7e9eb;--soft:#a3adb7;--rule:#373e45;--card:#1e2327;"
    "--main:#6db3f2;--other:#8d98a3;--bad:#ff8a80;--good:#66c795;--warn:#e3b341"
)

CSS = f"""
:root{{color-scheme:light dark;{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
@media print{{:root{{color-scheme:light;{_LIGHT}}}}}
*{{box-sizing:border-box}}
html{{-webkit-text-size-adjust:100%}}
body{{margin:0;background:var(--bg);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}}
main,footer{{max-width:1240px;margin:0 auto;padding:0 16px}}
footer{{color:var(--soft);font-size:.85rem;padding-bottom:32px}}
h1{{font-size:1.55rem;line-height:1.2;margin:24px 0 4px;overflow-wrap:anywhere}}
h2{{font-size:1.2rem;margin:40px 0 8px;padding-top:12px;border-top:1px solid var(--rule)}}
h3{{font-size:1rem;margin:24px 0 6px}}
h4{{font-size:.9rem;margin:0 0 4px;overflow-wrap:anywhere}}
p,ul,ol{{max-width:46rem;margin:8px 0;overflow-wrap:break-word}}
ul,ol{{padding-left:1.3rem}}
li{{overflow-wrap:anywhere}}
a{{color:var(--main)}}
nav{{margin:16px 0 0;font-size:.9rem;line-height:1.9}}
nav a{{margin-right:14px;white-space:nowrap}}
code{{font:.88em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}}
pre{{background:var(--card);border:1px solid var(--rule);border-radius:6px;padding:10px 12px;overflow-x:auto}}
pre code{{overflow-wrap:normal}}
.sub{{color:var(--soft);margin:0}}
.note{{color:var(--soft);font-size:.9rem}}
.verdict{{border:1px solid var(--rule);border-left:8px solid var(--tone);border-radius:8px;background:var(--card);
padding:14px 16px;margin:16px 0}}
.verdict p{{margin:6px 0}}
.verdict .class{{font-size:1.5rem;font-weight:700;color:var(--tone);margin:0;line-height:1.2}}
.certified{{--tone:var(--good)}}.boundary{{--tone:var(--warn)}}.no-go{{--tone:var(--bad)}}
.unknown{{--tone:var(--soft)}}
.tag{{display:inline-block;border:1.5px solid var(--tone);color:var(--tone);border-radius:999px;padding:0 9px;
font-weight:600;font-size:.85rem;white-space:nowrap}}
.tiles{{display:grid;grid-template-columns:repeat(auto-fill,minmax(140px,1fr));gap:8px;margin:12px 0;padding:0}}
.tiles div{{border:1px solid var(--rule);border-radius:6px;padding:6px 10px;background:var(--bg)}}
.tiles dt{{font-size:.78rem;color:var(--soft);line-height:1.25;overflow-wrap:anywhere}}
.tiles dd{{margin:0;font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}}
.wide{{overflow-x:auto;margin:10px 0}}
.wide:focus-visible{{outline:2px solid var(--main)}}
table{{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}}
caption{{text-align:left;font-weight:600;padding:0 0 4px}}
th,td{{padding:4px 12px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}}
th{{font-weight:600;color:var(--soft);vertical-align:bottom}}
td.n,th.n{{text-align:right}}
td.n{{white-space:nowrap}}
tr.ours td,tr.ours th{{font-weight:600;color:var(--ink)}}
tbody th{{font-weight:400;color:var(--ink);vertical-align:top;white-space:nowrap}}
td.long{{min-width:13rem}}
tbody th.long{{white-space:normal;overflow-wrap:anywhere;min-width:9rem}}
.yes{{color:var(--good)}}.no{{color:var(--bad);font-weight:600}}
details{{margin:10px 0}}
summary{{cursor:pointer;color:var(--main)}}
.figures{{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr));gap:20px 28px;margin:12px 0}}
figure{{margin:0;max-width:480px;min-width:0}}
figcaption{{color:var(--soft);font-size:.82rem;line-height:1.4;margin-top:4px}}
svg[role=img]{{display:block;width:100%;height:auto;overflow:visible}}
svg.spark[role=img]{{width:96px;height:24px}}
svg text{{fill:var(--ink);stroke:var(--bg);stroke-width:3px;stroke-linejoin:round;paint-order:stroke;
font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}}
svg .s{{fill:var(--soft);font-size:10.5px}}svg .t{{font-weight:600}}svg .v{{font-size:11px}}
svg .main-t{{fill:var(--main);font-weight:600}}svg .bad-t{{fill:var(--bad);font-weight:600}}
svg path{{fill:none}}
.grid{{stroke:var(--rule)}}.zero{{stroke:var(--soft);stroke-width:1.2}}
.least{{stroke:var(--warn);stroke-width:1.3;stroke-dasharray:4 3}}
.leader{{stroke:var(--other);stroke-width:.8}}
.bar{{stroke-width:2.2}}.thin{{stroke-width:1}}svg .main{{stroke:var(--main)}}svg .bad{{stroke:var(--bad)}}
svg .warn{{stroke:var(--warn)}}svg .other{{stroke:var(--other)}}svg .fill-warn{{fill:var(--warn)}}
svg .fill-main{{fill:var(--main)}}svg .fill-bad{{fill:var(--bad)}}svg .fill-other{{fill:var(--other)}}
.band{{fill:var(--main);opacity:.16}}svg .band{{fill:var(--main)}}
.came{{fill:var(--bad);stroke:var(--bg);stroke-width:1.5}}
.cloud{{stroke:var(--main);stroke-width:4;stroke-linecap:round;opacity:.55}}
.key{{display:flex;flex-wrap:wrap;gap:2px 18px;list-style:none;padding:0;font-size:.85rem;
color:var(--soft);max-width:none}}
.key li{{display:flex;align-items:center}}
.key svg{{flex:none;width:20px;height:12px;margin-right:5px}}
@media screen and (max-width:640px){{
tbody th{{white-space:normal}}
.stack,.stack tbody,.stack tr,.stack th,.stack td{{display:block}}
.stack thead{{display:none}}
.stack tr{{border:1px solid var(--rule);border-radius:8px;padding:8px 12px;margin:0 0 12px}}
.stack th,.stack td{{border:0;padding:2px 0;min-width:0}}
.stack th{{font-size:1rem;font-weight:600}}
.stack td[data-head]::before{{content:attr(data-head);display:block;font-size:.78rem;color:var(--soft);margin-top:4px}}
}}
@media print{{
@page{{margin:14mm}}
body{{font-size:10pt}}
main,footer{{max-width:none;padding:0}}
nav,.screen{{display:none}}
h2{{margin-top:20px}}
h2,h3,h4,caption{{break-after:avoid}}
figure,tr,.verdict,.tiles div{{break-inside:avoid}}
.figures{{grid-template-columns:repeat(2,1fr);gap:12px 20px}}
.wide{{overflow:visible}}
table{{font-size:7.5pt}}
th,td{{padding-right:6px;overflow-wrap:anywhere}}
td.long{{min-width:0}}
pre,pre code{{white-space:pre-wrap}}
details::details-content{{content-visibility:visible;display:block}}
*{{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
}}
""".strip()

_LIGHT_COLOURS = dict(part.split(":") for part in _LIGHT.replace("--", "").split(";"))
# The rules for drawings alone, with light colours in place of variables: what stands inside one image.
LIGHT_SVG = re.sub(
    r"var\(--(\w+)\)",
    lambda found: _LIGHT_COLOURS[found[1]],
    "\n".join(
        line
        for line in CSS.split("\n")
        if line.startswith(
            ("svg text", "svg .", "svg path", ".grid", ".least", ".leader", ".bar", ".band", ".came", "font:12px")
        )
        and "spark" not in line
    ),
)
