package app

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// refusedPlace is a place in the code that makes an answer 401 or 403: it names the status, errcode.Denied, or an S3 error's
// reason.
type refusedPlace struct {
	id   string // file, declaration and, in a table, the row
	text string // longest constant text beside it, such as the reason; ""
	line int
}

// refusedPlaces reads the server's code. Comparisons with a status or code make no answer.
func refusedPlaces(t *testing.T) (all []refusedPlace) {
	t.Helper()
	w := &placeWalk{files: token.NewFileSet(), returned: map[string][]refusedPlace{}}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "storetest" || name == "testdata" || strings.HasSuffix(name, "test") && name != ".."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(w.files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		w.name = strings.TrimPrefix(filepath.ToSlash(path), "../")
		for _, decl := range file.Decls {
			w.returns(decl)
			w.declaration(decl)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range w.reasoners {
		w.all = append(w.all, w.returned[name]...)
	}
	return w.all
}

// placeWalk collects the places in the file name, and those before.
type placeWalk struct {
	files     *token.FileSet
	name      string
	all       []refusedPlace
	reasoners []string                  // functions that return reasons
	returned  map[string][]refusedPlace // reasons that functions return, by name
}

func (w *placeWalk) because(reason string, n ast.Node) refusedPlace {
	return refusedPlace{w.name + " because " + reason, reason, w.files.Position(n.Pos()).Line}
}

// returns adds the texts that an S3 function returns.
func (w *placeWalk) returns(decl ast.Decl) {
	f, ok := decl.(*ast.FuncDecl)
	if !ok || !strings.Contains(w.name, "s3api/") || f.Body == nil {
		return
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok {
			w.returned[f.Name.Name] = append(w.returned[f.Name.Name], w.because(longestText(r.Results), n))
		}
		return true
	})
}

// declaration adds a declaration's places.
func (w *placeWalk) declaration(decl ast.Decl) {
	var parents []ast.Node
	ast.Inspect(decl, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		parents = append(parents, n)
		if call, ok := n.(*ast.CallExpr); ok && isReason(call) {
			reason := longestText(call.Args)
			if reason == "" { // a function returns the reasons
				w.reasoners = append(w.reasoners, call.Args[0].(*ast.CallExpr).Fun.(*ast.SelectorExpr).Sel.Name)
				return true
			}
			w.all = append(w.all, w.because(reason, n))
		}
		if s, ok := n.(*ast.SelectorExpr); ok && isRefusal(s) {
			if p, ok := placeAt(decl, parents); ok {
				p.id, p.line = w.name+" "+p.id, w.files.Position(n.Pos()).Line
				w.all = append(w.all, p)
			}
		}
		return true
	})
}

func isRefusal(s *ast.SelectorExpr) bool {
	of, _ := s.X.(*ast.Ident)
	return of != nil && slices.Contains([]string{"http.StatusUnauthorized", "http.StatusForbidden", "errcode.Denied"}, of.Name+"."+s.Sel.Name)
}

// isReason reports a call that gives an S3 error another reason for the log.
func isReason(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "because"
}

// placeAt describes the last parent, a status or code, unless it is compared, or is a table's key.
func placeAt(decl ast.Decl, parents []ast.Node) (p refusedPlace, ok bool) {
	at := parents[len(parents)-1]
	row := ""
	for i := len(parents) - 2; i >= 0; i-- {
		switch n := parents[i].(type) {
		case *ast.BinaryExpr:
			return p, false
		case *ast.CaseClause:
			if slices.ContainsFunc(n.List, func(e ast.Expr) bool { return e == parents[i+1] }) {
				return p, false
			}
		case *ast.KeyValueExpr:
			if n.Key == parents[i+1] {
				return p, false
			}
			if key, isName := n.Key.(*ast.Ident); isName {
				row = cmp.Or(row, key.Name)
			}
		case *ast.CallExpr:
			if s, isMethod := n.Fun.(*ast.SelectorExpr); isMethod && s.Sel.Name == "Is" {
				return p, false
			}
			p.text = cmp.Or(p.text, longestText(n.Args))
		case *ast.CompositeLit:
			if len(n.Elts) > 0 && n.Pos() < at.Pos() {
				p.text = cmp.Or(p.text, longestText(n.Elts))
			}
		case *ast.ReturnStmt:
			p.text = cmp.Or(p.text, longestText(n.Results))
		case *ast.ValueSpec:
			row = strings.TrimSpace(n.Names[0].Name + " " + row)
		}
	}
	if f, isFunc := decl.(*ast.FuncDecl); isFunc {
		name := f.Name.Name
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			if star, isStar := of.(*ast.StarExpr); isStar {
				of = star.X
			}
			name = of.(*ast.Ident).Name + "." + name
		}
		row = strings.TrimSpace(name + " " + row)
	}
	p.id = row
	return p, true
}

// longestText returns the longest part from the constant texts in expressions, up to a verb of fmt.
func longestText(exprs []ast.Expr) (longest string) {
	for _, e := range exprs {
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr, *ast.CompositeLit:
				return false
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				if n.Kind != token.STRING || err != nil {
					return true
				}
				for part := range strings.SplitSeq(text, "%") {
					if len(part) > len(longest) {
						longest = part
					}
				}
			}
			return true
		})
	}
	return longest
}
