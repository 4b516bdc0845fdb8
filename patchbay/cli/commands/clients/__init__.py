"""The commands `install`, `uninstall` and `import`: this hub in MCP clients, and their servers in this hub."""
