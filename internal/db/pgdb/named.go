package pgdb

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Arg is an argument for a Named.
type Arg struct {
	Param string // e.g. "p_tenant uuid"; without a type, the statement casts it
	Value any    // as pgx takes it
}

// Named is a statement with named parameters. In its SQL, f(...) passes f all arguments by name, and @name is a
// single argument. Declare it as a package variable with NewNamed, and pass the statement and its arguments to a method
// of DB or Tx: db.QueryRow(ctx, putToy.Statement, putToy.Args(toy), &size).
type Named[A any] struct {
	Statement
	args   func(A) []Arg // the function given to NewNamed
	params []string      // Arg.Param in order
}

// NewNamed numbers the parameters once. It panics if a parameter has no argument, or if an argument is not used. args
// must return the same parameters for every A, even the zero value.
func NewNamed[A any](s Statement, args func(A) []Arg) Named[A] {
	var zero A
	n := Named[A]{Statement: s, args: args}
	for _, a := range args(zero) {
		n.params = append(n.params, a.Param)
	}
	n.SQL = withParams(s.SQL, n.params)
	return n
}

// Args returns the arguments for the SQL, in a new slice. It panics if the function returns other parameters than for the
// zero value. It is safe for concurrent use if the function is.
func (n *Named[A]) Args(of A) []any {
	args := n.args(of)
	if len(args) != len(n.params) {
		panic(fmt.Sprintf("%s: %d arguments, want %d", n.Name, len(args), len(n.params)))
	}
	values := make([]any, len(args))
	for i := range args {
		if args[i].Param != n.params[i] {
			panic(fmt.Sprintf("%s: argument %d is %s, want %s", n.Name, i+1, args[i].Param, n.params[i]))
		}
		values[i] = args[i].Value
	}
	return values
}

// Call is like Named, but for DB.Call, DB.CallEach and Tx.Call, with binary arguments. Use it for frequent calls.
type Call[A any] struct {
	Statement
	write  func(A, *Args)
	params []string
}

// NewCall is like NewNamed, but returns a Call.
func NewCall[A any](s Statement, write func(A, *Args)) Call[A] {
	var zero A
	a := Args{declares: true}
	write(zero, &a)
	s.SQL = withParams(s.SQL, a.params)
	for i, p := range a.params {
		a.params[i], _, _ = strings.Cut(p, " ")
	}
	return Call[A]{Statement: s, write: write, params: a.params}
}

// Args returns the arguments for a call.
func (c *Call[A]) Args(of A) *Args {
	a := newArgs(c.params)
	c.write(of, a)
	return a
}

// namedParam matches "(...)" and "@name".
var namedParam = regexp.MustCompile(`\(\.\.\.\)|@[a-z]\w*`)

// withParams replaces f(...) and @name by numbered parameters. A param is "name type" or "name".
func withParams(sql string, params []string) string {
	names, numbered, used := make([]string, len(params)), make([]string, len(params)), make([]bool, len(params))
	for i, p := range params {
		name, typ, hasType := strings.Cut(p, " ")
		if slices.Contains(names[:i], name) {
			panic(fmt.Sprintf("two arguments with the name %s for %s", name, sql))
		}
		names[i], numbered[i] = name, "$"+strconv.Itoa(i+1)
		if hasType {
			numbered[i] += "::" + typ
		}
	}
	text := namedParam.ReplaceAllStringFunc(sql, func(param string) string {
		if param[0] == '(' {
			all := make([]string, len(params))
			for i, name := range names {
				all[i], used[i] = name+" => "+numbered[i], true
			}
			return "(" + strings.Join(all, ", ") + ")"
		}
		i := slices.Index(names, param[1:])
		if i < 0 {
			panic(fmt.Sprintf("no argument for %s in %s", param, sql))
		}
		used[i] = true
		return numbered[i]
	})
	if i := slices.Index(used, false); i >= 0 {
		panic(fmt.Sprintf("no parameter for the argument %s in %s", names[i], sql))
	}
	return text
}
