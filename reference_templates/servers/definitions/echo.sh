@bash_command echo
