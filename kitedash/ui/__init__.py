"""Streamlit parts: the guard, the address (all URL and state keys), components, charts, number formats, colours."""
