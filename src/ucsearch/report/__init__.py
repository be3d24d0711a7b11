"""Pages to look at: a skeleton, a style sheet, tables that sort and pieces of SVG, as one HTML file without a network.

It knows nothing of decisions; whoever has figures to show fills in a template (`page.render_page`).
"""
