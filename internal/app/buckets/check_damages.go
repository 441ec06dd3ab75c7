package buckets

import (
	"context"
	"fmt"
	"slices"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
)

const (
	// shownLost limits how many lost bodies a check names.
	shownLost = 20
	// lateRepair is the age at which an unrepaired copy causes a warning.
	lateRepair = time.Hour
)

// inspectDamages reports damaged copies, which servers repair, and lost bodies, which an operator must restore. It
// reads earlier findings, no bodies.
func (s *Buckets) inspectDamages(ctx context.Context) (findings []service.Finding, err error) {
	const what = "buckets copies"
	h, err := s.maintenance.Health(ctx)
	if err != nil {
		return nil, err
	}
	var damaged, lost int64
	oldest := buckets.At(s.deps.Clock())
	for _, c := range h.Damages {
		if c.State == buckets.Lost {
			lost += c.Copies
			continue
		}
		damaged, oldest = damaged+c.Copies, min(oldest, c.Oldest)
	}
	f := service.Finding{State: service.OK, What: what, Says: "no damaged copies are known"}
	if damaged > 0 {
		f.Says = countOf(damaged, "damaged copy", "damaged copies") + "; servers repair them from good copies"
		if age := s.deps.Clock().Sub(oldest.Time()); age > lateRepair {
			f.State = service.Warning
			f.Says += fmt.Sprintf("; the first was found %s ago", age.Round(time.Minute))
			f.Fix = "check the nodes above and the console page Damaged copies, which shows the reasons; then run holdfast buckets audits run --verify --repair"
		}
	}
	f.Says += "; " + s.scrubSummary(h.Scrubs)
	findings = append(findings, f)
	if lost == 0 {
		return findings, nil
	}
	more, err := s.inspectLost(ctx, what)
	return append(findings, more...), err
}

// countOf is service.Count for nouns with an irregular plural.
func countOf(n int64, singular, plural string) string {
	if n == 1 {
		return "1 " + singular
	}
	return fmt.Sprintf("%d %s", n, plural)
}

// inspectLost names the objects whose bodies are lost. A body with several bad copies counts once.
func (s *Buckets) inspectLost(ctx context.Context, what string) (findings []service.Finding, err error) {
	cache := &nameCache{service: s.opened, accounts: map[buckets.AccountID]*accountNames{}}
	seen := map[string]bool{}
	q := buckets.DamageQuery{State: buckets.Lost, Limit: buckets.MaxPage}
	for d, err := range s.maintenance.Damages(ctx, q) {
		if err != nil {
			return nil, err
		}
		if seen[d.Path] { // damage to the same body
			continue
		}
		if seen[d.Path] = true; len(seen) > shownLost {
			continue
		}
		name, err := cache.damaged(ctx, &d)
		if err != nil {
			return nil, err
		}
		findings = append(findings, service.Finding{State: service.Wrong, What: what, Says: name + ": no good copy is left"})
	}
	last := service.Finding{
		State: service.Wrong, What: what, Says: countOf(int64(len(seen)), "body", "bodies") + " without a good copy",
		Fix: "if a disk with a good copy exists, mount it and run holdfast buckets audits run --verify --repair; otherwise restore these objects from a backup, or delete them",
	}
	return append(findings, last), nil
}

// damaged names the object or part, or returns the path if no row names the body.
func (n *nameCache) damaged(ctx context.Context, d *buckets.Damage) (string, error) {
	account, bucket, err := n.find(ctx, d.Owner, d.Bucket)
	switch {
	case err != nil:
		return "", err
	case d.Name == "":
		return d.Path, nil
	case d.Upload != "":
		return fmt.Sprintf("%s/%s/%s (part %d, body %s)", account, bucket, printable(d.Name), d.Number, d.ID), nil
	}
	return fmt.Sprintf("%s/%s/%s (body %s)", account, bucket, printable(d.Name), d.ID), nil
}

// scrubSummary says since when all copies were read, or how far the first pass is.
func (s *Buckets) scrubSummary(all []buckets.Scrub) string {
	if s.cfg.ScrubEvery == 0 {
		return "copies are not read regularly (buckets.scrub_interval = 0)"
	}
	all = slices.DeleteFunc(all, func(p buckets.Scrub) bool {
		return !slices.ContainsFunc(s.cluster.Nodes(), func(n blobs.Status) bool { return n.ID == p.Node })
	})
	oldest := buckets.Moment(0)
	for i, p := range all {
		if p.Ended == 0 {
			return fmt.Sprintf("the first pass over all copies: %.0f%% of %s read", 100*scrubShare(p), p.Node)
		}
		if i == 0 || p.Ended < oldest {
			oldest = p.Ended
		}
	}
	if oldest == 0 {
		return "no pass over all copies has started yet"
	}
	return "all copies were read since " + oldest.Time().Format(time.DateOnly)
}
