package app

import (
	"errors"
	"strings"
	"testing"

	"holdfast/internal/conf"
)

// TestInvalidValuesAreShown gives every setting an invalid value, once in its variable and once in a flag. Each error shows
// the value, unless the setting is a secret.
func TestInvalidValuesAreShown(t *testing.T) {
	t.Parallel()
	cfg, report, err := Load(Services(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	const value = "not-valid/here"
	var environ []string
	var flags []conf.Flag
	secrets, parsed := map[string]bool{}, map[string]bool{}
	for _, s := range conf.Settings(cfg.sections(), report) {
		variable := "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(s.Path, ".", "__"))
		if strings.HasSuffix(s.Path, ".enabled") { // a service that is off has no further problems
			flags = append(flags, conf.Flag{Path: s.Path, Name: "--" + s.Path, Value: "true"})
			continue
		}
		environ, flags = append(environ, variable+"="+value), append(flags, conf.Flag{Path: s.Path, Name: "--" + s.Path, Value: value})
		for _, source := range []string{variable, "--" + s.Path} {
			secrets[source] = s.Secret
			_, isText := s.Data.(string)
			_, isList := s.Data.([]string)
			parsed[source] = !s.Secret && (!isText && !isList || strings.Contains(strings.ToLower(s.Path), "timeout"))
		}
	}
	shown := 0
	for _, load := range []func() error{
		func() error { _, _, err := Load(Services(), "", environ); return err },
		func() error { _, _, err := Load(Services(), "", nil, flags...); return err },
	} {
		var invalid *conf.Error
		if err := load(); !errors.As(err, &invalid) {
			t.Fatal(err)
		}
		for _, p := range invalid.Problems {
			ofSeveral := p.Where == "default" || strings.HasPrefix(p.What, "cannot be set together")
			if isShown := strings.Contains(p.What, value); isShown && secrets[p.Where] || !isShown && !secrets[p.Where] && !ofSeveral {
				t.Errorf("%s", p)
			} else if isShown {
				shown++
			}
			delete(parsed, p.Where)
		}
	}
	for source, must := range parsed {
		if must {
			t.Errorf("%s accepts %q", source, value)
		}
	}
	if shown < 200 {
		t.Errorf("only %d errors show the value", shown)
	}
}
