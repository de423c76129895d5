"""The rules, pure: no I/O, no clock, nothing imported from outside the domain."""
