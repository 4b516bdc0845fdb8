@bash_command date
