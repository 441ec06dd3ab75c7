package ext

import (
	"context"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/conf/settings"
	"holdfast/internal/extstorage/backend"
)

// inspect checks the indexes of st. wanted says whether the metadata index should exist.
func inspect(ctx context.Context, st backend.Indexed, wanted bool) ([]service.Finding, error) {
	const what = "extstorage tables"
	in, err := st.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	var findings []service.Finding
	for _, p := range in.Problems {
		findings = append(findings, service.Finding{State: service.Wrong, What: what, Says: p.Says, Fix: p.Fix})
	}
	switch {
	case wanted && !in.MetadataIndex:
		findings = append(findings, service.Finding{State: service.Warning, What: what, Says: "the metadata index is missing", Fix: "run: holdfast migrate"})
	case !wanted && in.MetadataIndex:
		findings = append(findings, service.Finding{
			State: service.Warning, What: what, Says: "the metadata index exists and slows down every write, but extstorage.metadata_index is off",
			Fix: "set it, or run: DROP INDEX CONCURRENTLY ext_storage_metadata_gin",
		})
	}
	return findings, nil
}

// probe checks the audit's destination, unless it is the log or a file in the data folder. It publishes nothing.
func (s *Extensions) probe(ctx context.Context) []service.Finding {
	const what = "extstorage.audit"
	if settings.IsBroker(s.cfg.Audit) {
		text, err := s.brokers.Check(ctx, s.cfg.Audit)
		if err != nil {
			return []service.Finding{{State: service.Wrong, What: what, Says: err.Error(), Fix: "start the broker, or correct extstorage.audit; until then events stay in the database"}}
		}
		return []service.Finding{{State: service.OK, What: what, Says: text}}
	}
	path, ok := strings.CutPrefix(s.cfg.Audit, "file:")
	if !ok {
		return nil
	}
	return []service.Finding{service.CheckLines(what, path)}
}
