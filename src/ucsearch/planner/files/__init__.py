"""Tables as people have them: text, numbers, dates, columns, sales, forecasts."""
