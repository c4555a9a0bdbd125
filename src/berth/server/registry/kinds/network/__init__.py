"""Services, what is behind them and what is in front. Nothing here carries traffic."""
