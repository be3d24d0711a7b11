"""What the console adds to the reports' style sheet."""

from __future__ import annotations

__all__ = ["MORE"]

MORE = """
.skip{position:absolute;left:-9999px}
.skip:focus{left:8px;top:8px;background:var(--bg);padding:8px 12px;border:2px solid var(--main);z-index:9}
header.bar{border-bottom:1px solid var(--rule);background:var(--card)}
header.bar .inner{max-width:1140px;margin:0 auto;padding:8px 16px;display:flex;flex-wrap:wrap;gap:4px 20px;
align-items:center}
header.bar nav{margin:0;display:flex;flex-wrap:wrap;gap:0 4px;flex:1}
header.bar nav a{margin:0;padding:6px 10px;border-radius:6px;text-decoration:none;line-height:1.3}
header.bar nav a[aria-current]{background:var(--bg);box-shadow:inset 0 -3px 0 var(--main);color:var(--ink);
font-weight:600}
header.bar form{margin:0;display:flex;gap:10px;align-items:center;font-size:.9rem}
.sub:first-child{margin-top:14px}
header.bar button{white-space:nowrap;padding:4px 10px}
.brand{font-weight:700;color:var(--ink);text-decoration:none}
button,.button{font:inherit;font-weight:600;color:var(--bg);background:var(--main);border:1px solid var(--main);
border-radius:6px;padding:7px 14px;cursor:pointer;text-decoration:none;display:inline-block;line-height:1.4}
button.quiet,.button.quiet{color:var(--main);background:none}
button.danger{background:var(--bad);border-color:var(--bad)}
:focus-visible{outline:3px solid var(--main);outline-offset:2px}
label{display:block;font-weight:600;margin:12px 0 4px}
label.inline{display:flex;gap:8px;align-items:baseline;font-weight:400;margin:6px 0}
input[type=text],input[type=password],input[type=search],input[type=datetime-local],select,textarea{font:inherit;
color:var(--ink);background:var(--bg);border:1px solid var(--soft);border-radius:6px;padding:7px 10px;width:100%;
max-width:32rem}
textarea{min-height:5rem}
label.hint{font-weight:400}.hint{color:var(--soft);font-size:.88rem;margin:2px 0 0}
.row{display:flex;flex-wrap:wrap;gap:10px 16px;align-items:end}
.row label{margin:0 0 4px}.row>div{flex:1 1 9rem;max-width:18rem}
.actions{display:flex;flex-wrap:wrap;gap:10px;margin:16px 0}
fieldset{min-width:0;border:1px solid var(--rule);border-radius:8px;padding:10px 16px;margin:14px 0}
legend{font-weight:600;padding:0 6px}
.said{border-left:6px solid var(--tone);background:var(--card);border-radius:6px;padding:10px 14px;margin:14px 0}
.needs{list-style:none;padding:0;max-width:none}
.needs li{border:1px solid var(--rule);border-left:8px solid var(--tone);border-radius:8px;padding:10px 14px;
margin:0 0 8px;display:flex;flex-wrap:wrap;gap:4px 14px;align-items:baseline}
.needs .what{font-weight:700}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr));gap:14px;margin:12px 0}
.card{border:1px solid var(--rule);border-radius:8px;padding:12px 16px;background:var(--card)}
.card h3{margin:0 0 6px;overflow-wrap:anywhere}
.versus{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,260px),1fr));gap:14px;margin:16px 0}
.versus .card p.big{font-size:1.5rem;font-weight:700;margin:4px 0;overflow-wrap:anywhere}
.unit{font-size:1rem;font-weight:400;color:var(--soft)}
fieldset table.roomy th,fieldset table.roomy td{vertical-align:middle}
fieldset table label.inline{margin:0}
table.full{width:100%}
.day{white-space:nowrap}
td.long{overflow-wrap:anywhere}
table.full caption{padding-top:8px}
table.roomy th,table.roomy td{padding:6px 14px 6px 0}
table.roomy th.n,table.roomy td.n{padding-right:18px}
.tag.good{--tone:var(--good)}.tag.warn{--tone:var(--warn)}.tag.bad{--tone:var(--bad)}.tag.plain{--tone:var(--soft)}
.good{--tone:var(--good)}.warn{--tone:var(--warn)}.bad{--tone:var(--bad)}.plain{--tone:var(--soft)}
.secret{font:1.05rem ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere;background:var(--card);
border:1px dashed var(--soft);border-radius:6px;padding:10px 14px;user-select:all}
dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:2px 18px;font-size:.92rem;margin:10px 0}
dl.facts dt{color:var(--soft)}dl.facts dd{margin:0;overflow-wrap:anywhere}
.login{max-width:26rem;margin:8vh auto 0}
.wide{max-width:100%}
pre.log{white-space:pre-wrap;overflow-wrap:anywhere;max-height:28rem;overflow:auto}
@media screen and (max-width:640px){dl.facts{grid-template-columns:1fr}dl.facts dd{margin-bottom:6px}
.stack td.n{text-align:left}.stack td:empty{display:none}
.stack caption{display:block}
.stack td[data-head]::before{display:inline;content:attr(data-head) ": ";margin:0}
.stack tr{padding:6px 12px;margin:0 0 8px}
header.bar .inner{padding:6px 10px;justify-content:space-between}
header.bar nav{order:3;flex:1 0 100%}header.bar nav a{padding:6px 8px}
fieldset{padding:8px 10px}fieldset tbody th{white-space:normal}
table.roomy:not(.stack) th,table.roomy:not(.stack) td{padding-right:10px}}
@media (prefers-contrast:more){:root{--soft:var(--ink)}}
@media print{header.bar,.actions,form{display:none}}
"""
