package openapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/internal/operate"
	"holdfast/internal/operate/openapi"
)

type paint struct {
	Wall  string `subject:"wall" doc:"name of the wall" schema:"Name"`
	Coats int    `flag:"coats" doc:"how often" default:"2" least:"1"`
	Color string `flag:"color" doc:"the new color" default:"white"`
	Dry   bool   `flag:"dry-run" doc:"without paint"`
	Loud  bool   `flag:"loud" doc:"say it" local:""`
}

type part struct {
	Kind string `json:"kind" enum:"brick,stone" doc:"what it is made of"`
}

type newWall struct {
	Kind string `flag:"kind" doc:"what it is made of"`
}

type wall struct {
	part
	Name    string          `json:"name" subject:"wall" example:"north"`
	Coats   int             `json:"coats" least:"0" example:"2"`
	Built   time.Time       `json:"built,omitzero"`
	Doors   []string        `json:"doors"`
	Windows *int64          `json:"windows,omitempty"`
	Plan    json.RawMessage `json:"plan"`
	Secret  string          `json:"-"`
	Sound   string          `json:"sound,omitempty" local:""`
	At      int64           `json:"-" cursor:""`

	hidden string
}

func (w wall) Notice() string { return w.hidden }

type one struct {
	Wall string `subject:"wall" doc:"name of the wall"`
}

type brick struct {
	Wall string `subject:"wall" doc:"name of the wall"`
	Row  int64  `subject:"row" doc:"number of the row" least:"1"`
}

const document = `{
  "openapi": "3.1.0",
  "paths": {
    "/own": {
      "get": {"summary": "Mine"}
    },
    "/house/walls/{wall}/old": {
      "get": {"summary": "Old"}
    },
    "/wallsx": {
      "get": {"summary": "Mine, too"}
    }
  },
  "components": {"schemas": {}}
}
`

func TestUpdate(t *testing.T) {
	t.Parallel()
	all := []operate.Operation{
		operate.With(operate.NewList(operate.About{Path: "walls", Doc: "List the walls", Rows: "sides"}, func(context.Context, operate.Page[int64]) ([]wall, error) { return nil, nil }),
			"total", func(context.Context) (int, error) { return 0, nil }),
		operate.NewRead(operate.About{Path: "walls/show", Doc: "Show a wall"}, func(context.Context, one) (part, error) { return part{}, nil }),
		operate.NewChange(operate.About{Path: "walls/add", Doc: "Add a wall"}, func(context.Context, operate.None) (wall, error) { return wall{}, nil }),
		operate.NewRead(operate.About{Path: "bricks/show", Doc: "Show a brick"}, func(context.Context, brick) (part, error) { return part{}, nil }),
		operate.NewChange(operate.About{Path: "walls/paint", Doc: "Paint a wall", More: "It takes\na day."}, func(context.Context, paint) (wall, error) { return wall{}, nil }),
	}
	updated, err := openapi.Update([]byte(document), "house", all)
	if err != nil || !json.Valid(updated) {
		t.Fatalf("%v: %s", err, updated)
	}
	text := string(updated)
	for _, own := range []string{"    \"/own\": {\n      \"get\": {\"summary\": \"Mine\"}\n    },\n", "    \"/wallsx\": {\n      \"get\": {\"summary\": \"Mine, too\"}\n    },\n", "\n  },\n  \"components\": {\"schemas\": {}}\n}\n"} {
		if !strings.Contains(text, own) {
			t.Errorf("no %s in\n%s", own, text)
		}
	}
	for _, part := range []string{
		`"operationId": "listWalls"`, `"operationId": "showWalls"`, `"operationId": "addWalls"`, `"operationId": "paintWalls"`,
		`"description": "It takes a day."`, `"summary": "Paint a wall"`, `"/house/walls/{wall}": {`, `"/house/walls/{wall}/paint": {`,
		`{"name": "wall", "in": "path", "required": true, "description": "Name of the wall.", "schema": {"type": "string", "minLength": 1}}`,
		`"schema": {"$ref": "#/components/schemas/Name"}`,
		`{"type": "integer", "format": "int64", "minimum": 0, "maximum": 9223372036854775807}`,
		`{"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}`,
		`"required": ["total", "sides", "next"]`, `"maxItems": 1000`, `"next": {`, `"total": {"type": "integer"}`,
		`"coats": {"type": ["integer", "null"], "description": "How often.", "minimum": 1, "default": 2}`,
		`"color": {"type": ["string", "null"], "description": "The new color.", "default": "white"}`,
		`"dryRun": {"type": ["boolean", "null"], "description": "Without paint.", "default": false}`,
		`"/house/bricks/{wall}/{row}": {`,
		`"schema": {"type": "integer", "format": "int64", "minimum": 1, "maximum": 9223372036854775807}`,
		`"required": ["kind", "name", "coats", "doors", "plan"]`,
		`"kind": {"type": "string", "description": "What it is made of.", "enum": ["brick", "stone"]}`,
		`"name": {"type": "string", "examples": ["north"]}`, `"coats": {"type": "integer", "minimum": 0, "examples": [2]}`,
		`"built": {"type": "string", "format": "date-time"}`, `"doors": {"type": "array", "items": {"type": "string"}}`,
		`"windows": {"type": "integer"}`, `"plan": {"type": "object", "additionalProperties": true}`, `"201": {`, `"409": {"$ref": "#/components/responses/AdminConflict"}`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in\n%s", part, text)
		}
	}
	for _, gone := range []string{"Old", "ecret", "hidden", "loud", "sound"} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is in\n%s", gone, text)
		}
	}
	if again, err := openapi.Update(updated, "house", all); err != nil || string(again) != text {
		t.Errorf("updated again, %v:\n%s", err, again)
	}
	if _, err := openapi.Update([]byte("{}"), "house", all); err == nil {
		t.Error("a document without paths")
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	all := []operate.Operation{
		operate.NewList(operate.About{Path: "walls", Doc: "List the walls"}, func(context.Context, operate.Page[int64]) ([]wall, error) { return nil, nil }),
		operate.NewChange(operate.About{Path: "walls/add", Doc: "Add a wall"}, func(context.Context, newWall) (wall, error) { return wall{}, nil }),
	}
	text, err := openapi.Document("house", all)
	var document struct {
		Paths      map[string]any
		Components map[string]map[string]any
	}
	if err := errors.Join(err, json.Unmarshal(text, &document)); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(document.Paths) != 1 || document.Paths["/house/walls"] == nil || bytes.Contains(text, []byte("SERVICE")) {
		t.Errorf("the document is\n%s", text)
	}
	for _, to := range regexp.MustCompile(`"#/components/(\w+)/(\w+)"`).FindAllSubmatch(text, -1) {
		if document.Components[string(to[1])][string(to[2])] == nil {
			t.Errorf("%s is missing", to[0])
		}
	}
	if again, err := openapi.Update(text, "house", all); err != nil || !bytes.Equal(again, text) {
		t.Errorf("updated again, %v:\n%s", err, again)
	}
}
