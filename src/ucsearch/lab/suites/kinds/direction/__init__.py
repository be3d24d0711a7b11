"""Direction on public series: short, flat or long against forecasts; its walk and tables serve others too."""
