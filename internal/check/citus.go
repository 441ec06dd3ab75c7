package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
)

// distributed is a database on Citus.
type distributed struct {
	service string
	where   string
	*engine.Distribution
}

// distribution reads how Citus distributes the service's tables; findings about that come from distributions, when
// all services are known.
func (c *check) distribution(ctx context.Context, s *service.Running) (findings []service.Finding) {
	for _, d := range s.Databases {
		if d.Distribution == nil {
			continue
		}
		by, err := d.Distribution(ctx)
		switch {
		case err != nil:
			findings = append(findings, service.Finding{State: service.Wrong, What: s.Name + " database", Says: d.Where + ": " + err.Error(), Fix: d.Advice(err)})
		case by != nil:
			c.distributed = append(c.distributed, distributed{s.Name, d.Where, by})
		}
	}
	return findings
}

// distributions reports services that share a colocation group, so that moving or splitting shards affects both. The
// first keeps the group, and the others get a statement that separates them.
func (c *check) distributions() (findings []service.Finding) {
	for i, d := range c.distributed {
		what := d.service + " tables"
		for _, p := range d.Problems {
			findings = append(findings, service.Finding{State: service.Wrong, What: what, Says: p.Problem, Fix: p.Fix})
		}
		if len(d.Problems) > 0 {
			continue
		}
		f := service.Finding{State: service.OK, What: what, Says: "Citus " + d.Version + ": all on the coordinator"}
		if n := len(d.Tables); n > 0 {
			f.Says = fmt.Sprintf("Citus %s: %s with %s each, colocation group %d", d.Version,
				service.Count(int64(n), "distributed table"), service.Count(int64(d.Shards), "shard"), d.Group)
		}
		if len(d.Others) > 0 {
			f.Says += ", shared with " + strings.Join(c.owners(d.Others), ", ")
			if !c.keeps(i) {
				f.State, f.Fix = service.Warning, d.Separate
				f.Says += ": shards are moved and split together"
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// keeps reports whether a service may keep its colocation group, because it is the last of those that share it.
func (c *check) keeps(i int) bool {
	rest := slices.Clone(c.distributed[i].Others)
	for _, later := range c.distributed[i+1:] {
		if later.where == c.distributed[i].where {
			rest = slices.DeleteFunc(rest, func(table string) bool { return slices.Contains(later.Tables, table) })
		}
	}
	return len(rest) == 0
}

// owners returns the services of tables.
func (c *check) owners(tables []string) (names []string) {
	services := map[string]string{}
	for _, s := range c.Services {
		for _, g := range s.Tables {
			for _, t := range g.Tables {
				services[t.Name] = s.Name
			}
		}
	}
	for _, table := range tables {
		if name := cmp.Or(services[table], table); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
