"""Direction of the mid-price in a limit order book."""
