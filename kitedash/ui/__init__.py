"""Streamlit parts: the guard, the address, components and charts."""
