package httpapi

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
)

func TestGuideHasTheLimits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/extension-storage-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Limits, quotas and rates\n")
	table, _, _ := strings.Cut(section, "\nSizes of ")
	number := regexp.MustCompile(`[0-9][0-9,]*`)
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			rows[strings.TrimSpace(cells[1])] = strings.Join(number.FindAllString(cells[2], -1), " ")
		}
	}
	limits := ext.DefaultLimits()
	for row, want := range map[string][]int64{
		"value, metadata": {int64(limits.Value), int64(limits.Metadata)},
		"zeros that exponents stand for in a value, in metadata": {canonjson.ZerosPerByte * int64(limits.Value), canonjson.ZerosPerByte * int64(limits.Metadata)},
		"digits of a number, nesting of a value":                 {canonjson.MaxDigits, canonjson.MaxDepth},
		"bulk put, batch":                                        {int64(limits.Items), int64(limits.ItemsBytes)},
		"body of a put; line of an import":                       {bodyOf(record, "PUT"), maxLine},
		"body of a patch":                                        {bodyOf(record, "PATCH")},
		"body of an increment, of a schema's status":             {bodyOf(increment, "POST"), bodyOf(schema, "PATCH")},
		"body of a bulk put, of a batch, of a [service's](extension-storage-operate.md#services) request": {bodyOf(records, "POST"), bodyOf(batch, "POST")},
		"schema": {ext.MaxSchemaBytes},
		"body with a schema, or of what is registered of an install": {bodyOf(schemas, "POST"), bodyOf(schemaCheck, "POST")},
		"string in a body, outside of values":                        {maxText},
		"time to live":                                               {int64(limits.MinTTL.Seconds()), int64(limits.MaxTTL.Seconds())},
		"bytes of an install":                                        {ext.MaxBytes}, "namespaces of an install": {ext.MaxNamespaces}, "keys of a namespace": {ext.MaxKeys},
	} {
		got, ok := rows[row]
		if !ok {
			t.Errorf("the table has no row %q", row)
			continue
		}
		numbers := strings.Fields(got)
		for i, n := range want {
			if i < len(numbers) && numbers[i] == grouped(n) || i == 1 && len(numbers) == 1 && numbers[0] == grouped(n) {
				continue
			}
			t.Errorf("%s: the guide has %q, the code %s", row, got, grouped(n))
		}
	}
	bodies := map[int64]bool{}
	for _, methods := range actions {
		for _, act := range methods {
			bodies[act.limit] = true
		}
	}
	for limit := range bodies {
		if limit > 0 && !strings.Contains(table, "| "+grouped(limit)+" bytes |") {
			t.Errorf("the table lacks a body of %s bytes", grouped(limit))
		}
	}
}

func bodyOf(r resource, method string) int64 { return actions[r][method].limit }

func grouped(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
