"""One page: a Jinja template between the shared head and foot, every value escaped, as one file without a network.

Tables marked `class="sortable"` sort by a click on a heading, and a `filter` bar hides rows; without JavaScript the
page shows the same rows in the order they were written. The page may run this one script, known by its hash, and
nothing else, whatever a name in the data contains.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from ucsearch.report.style import CSS
from ucsearch.report.text import MINUS, NONE, clean, count_text, is_number, number, short, signed

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["environment", "render_page"]

# Sorting and filtering. Cells sort by data-v where there is one, else by their text; numbers as numbers, empty last.
_SCRIPT = """
(function () {
  "use strict";
  function value(row, i) {
    var cell = row.cells[i];
    var text = cell.hasAttribute("data-v") ? cell.getAttribute("data-v") : cell.textContent.trim();
    return text;
  }
  function compare(a, b) {
    if (a === "" || b === "") { return a === b ? 0 : (a === "" ? 2 : -2); }
    var x = Number(a), y = Number(b);
    if (!isNaN(x) && !isNaN(y)) { return x < y ? -1 : (x > y ? 1 : 0); }
    return a.localeCompare(b, undefined, {numeric: true});
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var body = table.tBodies[0], heads = table.tHead.rows[0].cells;
    Array.prototype.forEach.call(heads, function (head, i) {
      var button = document.createElement("button");
      button.type = "button";
      while (head.firstChild) { button.appendChild(head.firstChild); }
      head.appendChild(button);
      button.addEventListener("click", function () {
        var up = head.getAttribute("aria-sort") !== "ascending";
        Array.prototype.forEach.call(heads, function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        var rows = Array.prototype.map.call(body.rows, function (row, at) { return [value(row, i), at, row]; });
        rows.sort(function (a, b) {
          var found = compare(a[0], b[0]);
          if (Math.abs(found) === 2) { return found; }
          return (up ? found : -found) || a[1] - b[1];
        });
        rows.forEach(function (row) { body.appendChild(row[2]); });
      });
    });
  });
  document.querySelectorAll("form.filter").forEach(function (form) {
    var table = document.getElementById(form.getAttribute("data-for"));
    var shown = form.querySelector("output"), rows = Array.prototype.slice.call(table.tBodies[0].rows);
    var texts = rows.map(function (row) { return row.textContent.toLowerCase(); });
    function apply() {
      var words = form.elements.text.value.toLowerCase().split(/\\s+/).filter(Boolean);
      var group = form.elements.group ? form.elements.group.value : "", count = 0;
      rows.forEach(function (row, i) {
        var fits = (!group || row.getAttribute("data-group") === group) &&
          words.every(function (word) { return texts[i].indexOf(word) >= 0; });
        row.hidden = !fits;
        if (fits) { count += 1; }
      });
      shown.textContent = count + " of " + rows.length;
    }
    form.hidden = false;
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    form.addEventListener("input", apply);
    apply();
  });
}());
"""
_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)

_MORE_CSS = """
th button{font:inherit;color:inherit;background:none;border:0;padding:0;margin:0;cursor:pointer;text-align:inherit}
th button::after{content:"\\2195";opacity:.45;margin-left:4px}
th[aria-sort=ascending] button::after{content:"\\2191";opacity:1}
th[aria-sort=descending] button::after{content:"\\2193";opacity:1}
th button:focus-visible,.filter input:focus-visible,.filter select:focus-visible{outline:2px solid var(--main)}
.filter{display:flex;flex-wrap:wrap;gap:8px 14px;align-items:center;margin:14px 0;font-size:.9rem}
.filter[hidden]{display:none}
.filter input,.filter select{font:inherit;color:inherit;background:var(--bg);border:1px solid var(--rule);
border-radius:6px;padding:6px 9px;max-width:100%}
.filter input{min-width:14rem;flex:1 1 14rem}
.filter output{color:var(--soft)}
.good{--tone:var(--good)}.warn{--tone:var(--warn)}.bad{--tone:var(--bad)}.plain{--tone:var(--soft)}
.why{min-width:18rem;max-width:34rem}
.why p{margin:0 0 4px}
.why details{margin:2px 0}
.binds{border-left:3px solid var(--warn);padding-left:8px}
.charts{grid-template-columns:repeat(auto-fill,minmax(min(100%,430px),1fr))}
table.roomy th,table.roomy td{padding:7px 16px 7px 0}
svg .fill-warn{fill:var(--warn)}
.lead{font-size:1.05rem}
.day{white-space:nowrap}
@media screen and (max-width:640px){.filter input,.filter select{width:100%}.why{min-width:0;max-width:none}
table.roomy.stack th,table.roomy.stack td{padding:2px 0}
.stack td.n{text-align:left;display:inline-block;margin-right:18px}.stack td:empty{display:none}}
@media print{.filter,th button::after{display:none}}
"""

_BASE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{{ title }}</title>
<style>{{ css|safe }}</style>
</head>
<body>
<main>
<h1>{{ title }}</h1>
{% block body %}{% endblock %}
</main>
<footer><p>{{ footer }}</p></footer>
<script>{{ script|safe }}</script>
</body>
</html>
"""

_PARTS = """
{% macro tiles(items) -%}
<dl class="tiles">{% for name, value in items %}<div><dt>{{ name }}</dt><dd>{{ value }}</dd></div>
{% endfor %}</dl>
{%- endmacro %}
{% macro tag(text, tone) -%}<span class="tag {{ tone }}">{{ text }}</span>{%- endmacro %}
{% macro filter(table, hint, groups, label) -%}
<form class="filter" data-for="{{ table }}" hidden>
<input name="text" type="search" placeholder="{{ hint }}" aria-label="{{ hint }}">
{% if groups %}<select name="group" aria-label="{{ label }}"><option value="">{{ label }}: all</option>
{% for name, count in groups %}<option value="{{ name }}">{{ name }} ({{ count }})</option>
{% endfor %}</select>{% endif %}
<output></output></form>
{%- endmacro %}
{% macro num(value, head, places=none) -%}
<td class="n" data-head="{{ head }}" data-v="{{ value if value is number else '' }}">
{%- if value is number %}{{ value|figure(places) }}{% endif %}</td>
{%- endmacro %}
{% macro headline_of(text, summary) -%}
<p class="lead"><strong>{{ text[:1]|upper }}{{ text[1:] }}</strong></p>
{{ tiles(summary) }}
{%- endmacro %}
{% macro fallbacks(reasons) -%}
{% if reasons %}<h2>Why decisions fell back</h2>
<div class="wide"><table class="roomy"><thead><tr><th scope="col">Reason</th><th scope="col" class="n">Decisions</th>
</tr></thead><tbody>{% for name, n in reasons %}<tr><td>{{ name|replace("_", " ") }}</td>{{ num(n, "") }}</tr>
{% endfor %}</tbody></table></div>{% endif %}
{%- endmacro %}
{% macro by_series(shown, total, money) -%}
<h2>By series</h2>
{% if total > shown %}<p class="note">The first {{ shown }} of {{ total }} series.</p>{% endif %}
{{ filter("by-series", "Search series", [], "") }}
<div class="wide" tabindex="0" role="region" aria-label="By series">
<table id="by-series" class="sortable roomy"><thead><tr><th scope="col">Series</th>
<th scope="col" class="n">Policy [{{ money }}]</th>
{%- endmacro %}
{% macro unusable(problems) -%}
{% if problems %}<h2>Series that could not be used</h2><ul>{% for p in problems %}<li>{{ p }}</li>{% endfor %}</ul>
{% endif %}
{%- endmacro %}
"""


def environment(**templates: str) -> Environment:
    """Jinja with escaping on, a `base` page, a `parts` module of macros, and `templates` by name."""
    from jinja2 import DictLoader, Environment, StrictUndefined

    made = Environment(
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        loader=DictLoader({"base": _BASE, "parts": _PARTS, **templates}),
    )
    made.filters.update(figure=number, signed=signed, short=short)
    made.tests["number"] = is_number
    made.globals.update(count_text=count_text, NONE=NONE, MINUS=MINUS)
    return made


def _shown(value: Any) -> Any:
    """Every text without characters that HTML forbids; what is HTML already (a macro's result) stays."""
    return value if hasattr(value, "__html__") or not isinstance(value, str) else clean(value)


def render_page(template: str, *, title: str, footer: str, **values: Any) -> str:
    """The page that `template` makes: it says `{% extends "base" %}` and fills the block `body`. Values are escaped."""
    page = environment(page=template).get_template("page")
    return page.render(title=title, footer=footer, css=CSS + _MORE_CSS, script=_SCRIPT, policy=_POLICY, **values)
