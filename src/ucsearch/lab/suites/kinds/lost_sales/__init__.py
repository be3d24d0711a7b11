"""Lost sales with lead times, against the published optima."""
