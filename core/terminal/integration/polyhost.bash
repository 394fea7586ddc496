# Read by bash in the place of the user's start-up file, which is read first.
# Lets the shell say where its prompts and commands are (OSC 133) and which
# directory it is in (OSC 7). It changes this shell alone.

if [ -r ~/.bashrc ]; then
	. ~/.bashrc
fi

# PS0 is what announces a command; it came with 4.4.
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)); then

	# Leaves $1 in __polyhost_url with everything but plain characters escaped.
	__polyhost_escape() {
		local LC_ALL=C s=$1 i c n
		__polyhost_url=
		for ((i = 0; i < ${#s}; i++)); do
			c=${s:i:1}
			case $c in
			[a-zA-Z0-9/._~-]) ;;
			*)
				printf -v n %d "'$c"
				printf -v c '%%%02X' $((n & 255))
				;;
			esac
			__polyhost_url+=$c
		done
	}

	# Leaves number and text of the newest line of the history in __polyhost_n
	# and __polyhost_line.
	__polyhost_newest() {
		local HISTTIMEFORMAT= line
		line=$(builtin history 1)
		line=${line#"${line%%[0-9]*}"}
		__polyhost_n=${line%%[!0-9]*}
		line=${line#"$__polyhost_n"}
		line=${line#\*}
		__polyhost_line=${line#"${line%%[![:space:]]*}"}
	}

	# Begins a command. Runs in a shell of its own. A line that the history
	# did not take is left to be read off the screen.
	__polyhost_begin() {
		local seen=$__polyhost_n
		__polyhost_newest
		printf '\e]133;C'
		if [ "$__polyhost_n" != "$seen" ] && ((${#__polyhost_line} <= 2000)); then
			__polyhost_escape "$__polyhost_line"
			printf ';cmdline_url=%s' "$__polyhost_url"
		fi
		printf '\a'
	}

	# Before the user's own prompt commands: how the command ended.
	__polyhost_end() {
		local code=$?
		printf '\e]133;D;%s\a' "$code"
		return "$code"
	}

	# After them: the prompt is what they left it to be.
	__polyhost_prompt() {
		local code=$?
		case $PS1 in
		*'133;A'*) ;;
		*) PS1='\[\e]133;A\a\]'$PS1'\[\e]133;B\a\]' ;;
		esac
		__polyhost_escape "$PWD"
		printf '\e]7;file://%s\a' "$__polyhost_url"
		__polyhost_newest
		return "$code"
	}

	PS0=$PS0'$(__polyhost_begin)'
	if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)); then
		PROMPT_COMMAND=(__polyhost_end "${PROMPT_COMMAND[@]}" __polyhost_prompt)
	else
		PROMPT_COMMAND=$'__polyhost_end\n'"$PROMPT_COMMAND"$'\n__polyhost_prompt'
	fi
fi
