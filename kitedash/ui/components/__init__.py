"""Parts of pages. Each draws one thing from a view model; none calls a service."""
