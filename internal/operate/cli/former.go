package cli

import (
	"cmp"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// whole begins a former spelling that has all words of the command.
const whole = "holdfast "

// rename is a former spelling with all words of a command.
type rename struct {
	from, to []string
	flag     string // removed flag that follows the words; "" for none
	isKept   bool   // the flag is still typed, and chooses the operation
	isValue  bool   // the value of the flag is the first argument now
}

// Rename returns the arguments of a command line with the present words of a command instead of former ones that
// began with another word; see operate.About.Former.
func Rename(args []string, services []service.Service) []string {
	at := firstWord(args)
	var found rename
	for _, s := range services {
		for i := range s.Operations {
			for _, former := range s.Operations[i].Former {
				r := newRename(s.CommandName(), &s.Operations[i], former)
				if r.matches(args[at:]) && r.isCloserThan(&found) {
					found = r
				}
			}
		}
	}
	if found.from == nil {
		return args
	}
	rest := args[at+len(found.from):]
	if found.flag != "" && !found.isKept {
		rest = found.withoutFlag(rest)
	}
	return slices.Concat(args[:at], found.to, rest)
}

// firstWord returns where the words of a command begin: after flags, and after the command that helps with another
// one or completes it.
func firstWord(args []string) (at int) {
	for at < len(args) {
		switch arg := args[at]; {
		case arg == "--config", arg == "--data":
			at++ // its value
		case strings.HasPrefix(arg, "-") || slices.Contains([]string{"help", "__complete", "__completeNoDesc"}, arg):
		default:
			return at
		}
		at++
	}
	return len(args)
}

// newRename parses a former spelling. A former noun of a list stands for all operations of its noun.
func newRename(service string, o *operate.Operation, former string) (r rename) {
	words, ok := strings.CutPrefix(former, whole)
	if !ok {
		return r
	}
	words, flag, _ := strings.Cut(words, " --")
	r.flag, _, r.isValue = strings.Cut(flag, " ")
	r.flag, r.isKept = strings.CutSuffix(r.flag, "=")
	r.from, r.to = strings.Fields(words), []string{service, o.Noun()}
	if o.Kind != operate.List || r.flag != "" || len(r.from) > 2 {
		r.to = append(r.to, o.Verb())
	}
	if r.flag == "json" { // it always printed JSON
		r.flag, r.to = "", append(r.to, "--json")
	}
	return r
}

// isCloserThan reports whether a spelling matches more of the command line than another. A flag that only chose the operation
// counts more than a flag that the operation still has.
func (r *rename) isCloserThan(other *rename) bool {
	return cmp.Or(cmp.Compare(len(r.from), len(other.from)), cmp.Compare(r.flagRank(), other.flagRank()), cmp.Compare(len(r.flag), len(other.flag))) > 0
}

func (r *rename) flagRank() int {
	switch {
	case r.flag == "":
		return 0
	case r.isKept:
		return 1
	}
	return 2
}

// matches reports whether a command line begins with the spelling. A spelling of a noun and a flag does not match with a verb between them.
func (r *rename) matches(args []string) bool {
	n := len(r.from)
	if n == 0 || len(args) < n || !slices.Equal(args[:n], r.from) {
		return false
	}
	if n == 2 && r.flag != "" && len(args) > n && !strings.HasPrefix(args[n], "-") {
		return false
	}
	return r.flag == "" || r.flagIn(args) >= 0
}

// flagIn returns the place of the flag, or -1.
func (r *rename) flagIn(args []string) int {
	return slices.IndexFunc(args, func(arg string) bool {
		name, value, _ := strings.Cut(arg, "=")
		return name == "--"+r.flag && (r.isValue || r.isKept || value == "" || value == "true")
	})
}

// withoutFlag returns arguments without the flag, whose value may be the first one now.
func (r *rename) withoutFlag(args []string) []string {
	at := r.flagIn(args)
	_, value, hasValue := strings.Cut(args[at], "=")
	rest := slices.Delete(slices.Clone(args), at, at+1)
	switch {
	case !r.isValue:
		return rest
	case !hasValue && at < len(rest):
		value = rest[at]
		rest = slices.Delete(rest, at, at+1)
	}
	return slices.Insert(rest, 0, value)
}
