package app_test

import (
	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/engines/all"
)

// onAllEngines returns this release's services as cmd/holdfast does. app.Services without engines knows SQLite only.
func onAllEngines() []service.Service { return app.Services(all.Engines()...) }
