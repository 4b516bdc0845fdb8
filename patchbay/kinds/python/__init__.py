"""Python definitions: functions of a module as tools."""
