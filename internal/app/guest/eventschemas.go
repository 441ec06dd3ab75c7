package guest

import (
	"context"
	"encoding/json"

	"holdfast/internal/errcode"
	"holdfast/internal/guest/eventschema"
	"holdfast/internal/operate"
)

// eventSchemaOperations work without the service: schemas belong to the binary and the configured profile.
func (s *Guest) eventSchemaOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "event-schemas", Rows: "schemas", Doc: "List the event types that the server's profile publishes", Title: "Event schemas", Empty: "There are no events.",
			Group: "Show the events' JSON Schemas", Text: "Each event type has a JSON Schema for its data. The type's last part is its version.",
		}, s.listEventSchemas),
		operate.NewRead(operate.About{
			Access: operate.ForViewers, Path: "event-schemas/show", Doc: "Print an event type's JSON Schema", Title: "Event schema", Example: "wishlist.added.v1\n--json handoff.initiated.v1",
		}, s.showEventSchema),
	}
}

// eventSchemaOutput describes an event type. Class decides how long events are kept, and whether an erased session
// keeps them.
type eventSchemaOutput struct {
	Type  string `json:"type" title:"Type" subject:"type" example:"melmastoon.bff.consumer.wishlist.added.v1"`
	Class string `json:"retentionClass" title:"Retention" enum:"operational,audit"`
	Doc   string `json:"description" title:"When" example:"An item was added to a wishlist."`
}

// listEventSchemas lists only the types that the configured profile can publish.
func (s *Guest) listEventSchemas(context.Context, operate.None) (all []eventSchemaOutput, _ error) {
	for _, schema := range eventschema.All(s.cfg.profile()) {
		all = append(all, eventSchemaOutput{schema.Type, schema.Retention, schema.Doc})
	}
	return all, nil
}

type eventTypeInput struct {
	Type string `subject:"type" doc:"event type, with or without the profile's prefix"`
}

type eventSchemaDetail struct {
	eventSchemaOutput
	Schema json.RawMessage `json:"schema" text:"Schema"`
}

// showEventSchema accepts the type with or without the profile's prefix.
func (s *Guest) showEventSchema(_ context.Context, in eventTypeInput) (eventSchemaDetail, error) {
	schema, ok := eventschema.Find(s.cfg.profile(), in.Type)
	if !ok {
		return eventSchemaDetail{}, errcode.New(errcode.NotFound, "no such event type: holdfast guest event-schemas list lists them")
	}
	return eventSchemaDetail{eventSchemaOutput{schema.Type, schema.Retention, schema.Doc}, schema.Text}, nil
}
