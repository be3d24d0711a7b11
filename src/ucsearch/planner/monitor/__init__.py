"""Are the forecasts of a log still right?"""
