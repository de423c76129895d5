"""Is the load client truthful? Against independent witnesses on identical arrivals."""
