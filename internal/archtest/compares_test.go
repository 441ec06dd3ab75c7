package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"testing"
	"testing/fstest"
)

// comparisons lists the functions that compare secrets in constant time.
var comparisons = []string{"subtle.ConstantTimeCompare", "hmac.Equal", "rate.Same"}

// guessable lists the server's functions that compare something of a client with a secret or a hash, and why
// clients cannot guess it. An operator's token allows 10 wrong tries per minute and network, wherever on the server it
// is sent (rate.Guesses). The others need no limit.
var guessable = map[string]string{
	"internal/app/handlers.go withToken":              "limited: the admin token; TestWrongTokensAreLimited sends wrong ones",
	"internal/app/console/signin.go signIn":           "limited: the admin token and the viewer token; the same test",
	"internal/web/rate/guesses.go Same":               "the comparison that these two call",
	"internal/app/console/session.go takeLink":        "a link has 256 random bits, works once, and expires after an hour",
	"internal/app/console/form.go readPost":           "a form's token has 256 random bits, and needs its session's cookie, too",
	"internal/app/console/form.go readUpload":         "a form's token has 256 random bits, and needs its session's cookie, too",
	"internal/auth/tokenlib/keyring.go verify":        "signed with the master secret: clients can try guesses offline with their own token, so check warns of a short one",
	"internal/auth/hawk/mac.go Verify":                "the key is derived from a token that the master secret signs: as above",
	"internal/listen/instance.go proves":              "the key is derived from the master secret: as above",
	"internal/auth/hawk/payload.go Read":              "the checksum of a body, no secret",
	"internal/auth/sigv4/form.go VerifyForm":          "the secret key has 40 random characters, or is an operator's own of at least 16",
	"internal/auth/sigv4/verify.go verifyAny":         "the secret key has 40 random characters, or is an operator's own of at least 16",
	"internal/auth/sigv4/version2.go compareVersion2": "the secret key has 40 random characters, or is an operator's own of at least 16",
	"internal/auth/sigv4/verify.go verify":            "the part of a body, whose header is signed with the same key",
	"internal/extstorage/cursor.go open":              "signed with the token secret, of at least 32 bytes",
	"internal/guest/digest.go is":                     "keyed with the handoff secret, of at least 32 bytes; clients do not send the hash",
	"internal/guest/cookie.go Verify":                 "signed with the cookie secret, of at least 32 bytes",
	"internal/guest/bots/challenge.go Solved":         "signed with the handoff secret, of at least 32 bytes",
	"internal/db/secrethash/secrethash.go Matches":    "the server's own secret and its hash in the database; no client sends it",
}

// TestComparedSecrets checks that each place that compares a secret has a limit on guesses, or says why it needs none,
// and that none compares the value of a secret setting in variable time.
func TestComparedSecrets(t *testing.T) {
	t.Parallel()
	report(t, compared(ownServer(t), guessable))
}

func compared(files serverFiles, declared map[string]string) (wrong []string) {
	used := map[string]bool{}
	for name, syntax := range files {
		for _, d := range syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			key := name + " " + fn.Name.Name
			for _, call := range constantTimeCalls(fn, path.Dir(name)) {
				used[key] = true
				if declared[key] == "" {
					wrong = append(wrong, fmt.Sprintf("%s calls %s: limit wrong secrets with rate.Guesses, or say in this test why nobody can guess the secret", key, call))
				}
			}
			for _, operator := range variableTimeOperators(fn) {
				wrong = append(wrong, fmt.Sprintf("%s compares a secret with %s: use rate.Same, whose time does not depend on it", key, operator))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(declared)) {
		if !used[key] {
			wrong = append(wrong, key+" compares no secret: remove it from this test")
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// constantTimeCalls returns the comparisons that a function in a folder calls.
func constantTimeCalls(fn *ast.FuncDecl, folder string) (calls []string) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if n, ok := n.(*ast.CallExpr); ok {
			if call := calledName(n); slices.Contains(comparisons, call) || call == "Same" && folder == "internal/web/rate" {
				calls = append(calls, call)
			}
		}
		return true
	})
	return calls
}

// variableTimeOperators returns the operators with which a function compares the value of a secret setting with
// something other than a constant.
func variableTimeOperators(fn *ast.FuncDecl) (operators []token.Token) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if n, ok := n.(*ast.BinaryExpr); ok {
			if _, constant := n.Y.(*ast.BasicLit); !constant && (n.Op == token.EQL || n.Op == token.NEQ) && (isReveal(n.X) || isReveal(n.Y)) {
				operators = append(operators, n.Op)
			}
		}
		return true
	})
	return operators
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if of, ok := f.X.(*ast.Ident); ok {
			return of.Name + "." + f.Sel.Name
		}
	}
	return ""
}

func isReveal(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Reveal"
}

func TestComparedSecretsBite(t *testing.T) {
	t.Parallel()
	source := `package toy

func open(token string) bool { return subtle.ConstantTimeCompare([]byte(token), want) == 1 }

func known(token string) bool { return rate.Same(token, want) }

func fast(token string) bool { return token == cfg.Token.Reveal() || cfg.Token.Reveal() != "" }
`
	got := compared(readServer(t, fstest.MapFS{"cmd/toy.go": &fstest.MapFile{Data: []byte("package main\n")}, "internal/toy/toy.go": &fstest.MapFile{Data: []byte(source)}}),
		map[string]string{"internal/toy/toy.go known": "a reason", "internal/toy/toy.go former": "a reason"})
	want := []string{
		"internal/toy/toy.go fast compares a secret with ==: use rate.Same, whose time does not depend on it",
		"internal/toy/toy.go former compares no secret: remove it from this test",
		"internal/toy/toy.go open calls subtle.ConstantTimeCompare: limit wrong secrets with rate.Guesses, or say in this test why nobody can guess the secret",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
