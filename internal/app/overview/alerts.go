package overview

import (
	"context"
	"time"

	"holdfast/internal/alerts"
	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// alertOperations returns the operations on alerts. Their page explains how to set alerts.url while it is not set.
func alertOperations(a *alerts.Alerts) []operate.Operation {
	setup := func() *operate.Setup {
		if a.Settings().URL != "" {
			return nil
		}
		return &operate.Setup{
			Text:  "Alerts are not sent anywhere yet. Set alerts.url to a webhook, e.g. an ntfy topic, and reload the settings.",
			Lines: "[alerts]\nurl = \"https://ntfy.sh/YOUR-TOPIC?tpl=1&t={{.title}}&m={{.text}}\"", Guide: "docs/monitoring.md",
		}
	}
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "alerts", Doc: "List active alerts", Group: "Send a test alert",
			Title: "Alerts", Empty: "No alert is open.", ServerOnly: true,
			Text:  "The server posts an alert to alerts.url when a problem starts, and another when it ends.",
			Setup: setup,
		}, listAlerts(a)),
		operate.NewChange(operate.About{Path: "alerts/test", Doc: "Send a test alert to alerts.url", Button: "Send a test", Setup: setup}, testAlert(a)),
	}
}

// alertOutput is an alert that was sent and has not ended.
type alertOutput struct {
	Name     string    `json:"name" title:"Alert" doc:"alert kind" example:"disk-full"`
	Subject  string    `json:"subject" title:"Subject" zero:"-" doc:"affected part, e.g. a service"`
	Severity severity  `json:"severity" title:"Severity" enum:"warning,critical"`
	Since    time.Time `json:"since" title:"Since" doc:"time sent"`
	Says     string    `json:"says" title:"Finding"`
	Fix      string    `json:"fix,omitempty" title:"Fix" zero:"-"`
}

// severity is "warning" or "critical".
type severity string

func (s severity) Cell() service.Cell {
	if s == "critical" {
		return service.Cell{State: service.Wrong, Text: string(s)}
	}
	return service.Cell{State: service.Warning, Text: string(s)}
}

// listAlerts lists alerts that a restart has not forgotten either: package alerts keeps them in a file.
func listAlerts(a *alerts.Alerts) func(context.Context, operate.None) ([]alertOutput, error) {
	return func(context.Context, operate.None) (all []alertOutput, err error) {
		for _, told := range a.Known() {
			all = append(all, alertOutput{told.Name, told.Subject, severity(told.Severity), told.Since, told.Says, told.Fix})
		}
		return all, nil
	}
}

type tested struct{}

func (tested) Notice() string { return "the test alert was sent" }

// testAlert sends at once and waits for the webhook's answer, whose error the operator sees.
func testAlert(a *alerts.Alerts) func(context.Context, operate.None) (tested, error) {
	return func(ctx context.Context, _ operate.None) (tested, error) {
		if err := a.SendTest(ctx); err != nil {
			return tested{}, errcode.New(errcode.Unavailable, "the alert was not sent: "+err.Error())
		}
		return tested{}, nil
	}
}
