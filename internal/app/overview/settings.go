package overview

import (
	"context"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// Reloaded lists the settings that a reload changed, e.g. server.max_requests. Both may be empty.
type Reloaded struct {
	Applied []string `json:"applied" doc:"settings applied"`
	Restart []string `json:"restart" doc:"changed settings that need a restart"`
}

func (r Reloaded) Notice() string {
	switch {
	case len(r.Applied)+len(r.Restart) == 0:
		return "the configuration has not changed"
	case len(r.Restart) == 0:
		return "applied: " + strings.Join(r.Applied, ", ")
	case len(r.Applied) == 0:
		return "these need a restart: " + strings.Join(r.Restart, ", ")
	}
	return "applied: " + strings.Join(r.Applied, ", ") + "; these need a restart: " + strings.Join(r.Restart, ", ")
}

// settingOperations returns the operation that reloads the configuration. An invalid configuration is an error that
// changes nothing.
func settingOperations(o *Operated) []operate.Operation {
	return []operate.Operation{operate.NewChange(operate.About{
		Path: "settings/reload", Doc: "Read the configuration again, and apply the changed settings that need no restart", Button: "Reload",
		Group: "Apply changed settings", Title: "Change settings", ServerOnly: true,
	}, func(ctx context.Context, _ operate.None) (Reloaded, error) { return o.Reload(ctx) })}
}

// showSettings shows each setting's value in use, its origin, and how a new value is applied. The parameter path
// shows settings with this prefix.
func (o *Overview) showSettings(_ context.Context, r *service.PageRequest) (*service.View, error) {
	t := &service.Table{
		Columns: []service.Column{{Title: "Setting"}, {Title: "Value"}, {Title: "Source"}, {Title: "Applied by"}},
		Search:  []service.Field{{Name: "path", Label: "Setting"}}, Empty: "No setting starts with this path.",
	}
	waiting := o.Waiting()
	for _, s := range o.Settings() {
		if !strings.HasPrefix(s.Path, r.Value("path")) {
			continue
		}
		by := service.TextCell("restart")
		switch {
		case slices.Contains(waiting, s.Path):
			by = service.Cell{State: service.Warning, Text: "a restart, for which its new value waits"}
		case s.Reloads:
			by.Text = "reload"
		}
		t.Rows = append(t.Rows, []service.Cell{service.TextCell(s.Path), service.TextCell(s.Value), service.TextCell(s.Where), by})
	}
	return &service.View{Blocks: []service.Block{
		&service.Text{Body: "The settings in use, and where each was set. Secrets are hidden. A reload reads the configuration again, but keeps the environment variables from the start."}, t,
	}}, nil
}

// Search finds settings by words, for the console's search.
func (o *Overview) Search(_ context.Context, query string) (hits []service.Hit, err error) {
	for _, s := range o.Settings() {
		if service.HasWords(s.Path, query) && len(hits) < service.MaxHits {
			hits = append(hits, service.Hit{Kind: "Setting", Text: s.Path, To: service.PageLink("settings", "path", s.Path)})
		}
	}
	return hits, nil
}
