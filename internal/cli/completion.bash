# bash completion for holdfast. It needs bash 3.2 or later, and no other package.

# Sets words to the words before the cursor, and part to the end of the last word: bash replaces only the part after "=" or
# ":", because COMP_WORDBREAKS contains them.
__holdfast_words() {
    local line=${COMP_LINE:0:COMP_POINT} rest word i
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        rest=${line#"${line%%[![:space:]]*}"}
        word=${COMP_WORDS[i]}
        if ((i == COMP_CWORD)); then
            word=$rest
        fi
        if ((i > 0)) && [[ ${#rest} == "${#line}" ]]; then
            words[${#words[@]}-1]+=$word
        else
            words+=("$word")
        fi
        line=${rest#"$word"}
    done
    part=$word
    if [[ $part == [=:]* ]]; then
        part=${part##*[=:]}
    fi
}

# Sets COMPREPLY to the files and folders that begin with part. $1 are the extensions, separated by "|"; "": all files.
__holdfast_files() {
    local name
    compopt -o filenames 2>/dev/null
    while IFS= read -r name; do
        if [[ -d $name || -z $1 || $name == *.$1 ]]; then
            COMPREPLY+=("$name")
        fi
    done < <(compgen -f -- "$part")
}

__start_holdfast() {
    local words part program current prefix answer directive line value about longest=0 i
    local values=() abouts=() extensions=()
    COMPREPLY=()
    __holdfast_words
    program=${words[0]/#\~/$HOME}
    type -P -- "$program" >/dev/null || program=holdfast
    answer=$("$program" __complete "${words[@]:1}" 2>/dev/null) || return 0
    directive=${answer##*:}
    answer=${answer%:*}

    current=${words[${#words[@]}-1]}
    prefix=${current%"$part"}
    if [[ $current == -*=* ]]; then # the answer does not repeat the flag
        current=${current#*=}
        prefix=${prefix#*=}
    fi
    if ((directive & 1)); then # an error
        return 0
    elif ((directive & 8)); then # only files with these extensions
        while IFS= read -r line; do
            if [[ -n $line ]]; then
                extensions+=("$line")
            fi
        done <<<"$answer"
        for line in "${extensions[@]}"; do
            __holdfast_files "$line"
        done
        return 0
    elif ((directive & 16)); then # only folders
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(compgen -d -- "$part")
        return 0
    fi
    if ((directive & 2)); then
        compopt -o nospace 2>/dev/null
    fi
    if ((directive & 4)); then
        compopt +o default 2>/dev/null
    fi
    if ((directive & 32)); then
        compopt -o nosort 2>/dev/null
    fi

    while IFS= read -r line; do
        value=${line%%$'\t'*}
        if [[ -n $value && $value == "$current"* && $value != _activeHelp_* ]]; then
            about=
            if [[ $line == *$'\t'* ]]; then
                about=${line#*$'\t'}
            fi
            values+=("${value#"$prefix"}")
            abouts+=("$about")
            if ((${#value} > longest)); then
                longest=${#value}
            fi
        fi
    done <<<"$answer"

    # 63 means that bash only lists the values, so they may be followed by their descriptions.
    for ((i = 0; i < ${#values[@]}; i++)); do
        value=${values[i]}
        if [[ $COMP_TYPE == 63 && ${#values[@]} -gt 1 && -n ${abouts[i]} ]]; then
            printf -v value '%-*s  (%s)' "$longest" "$value" "${abouts[i]}"
        fi
        COMPREPLY+=("$value")
    done
}

complete -o default -F __start_holdfast holdfast
