package ext

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/ext"
	"holdfast/test/fault/harness"
)

// TestSchemaMemory lets a tenant register, activate and use schemas with maximum size, under the default rate limits.
// The server's memory must stay within the schema budget, and another tenant's writes with its own schema must
// succeed.
func TestSchemaMemory(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	harness.OnEngines(t, []harness.Service{Service()}, harness.InTurn(harness.OnSQLite, harness.OnPostgres), schemaMemory)
}

const (
	// schemaMemoryLimit is the minimum for extstorage.schema_memory.
	schemaMemoryLimit = 16 << 20

	hostileSchemas = 40
)

// hostileSchema returns a document whose compiled schema takes 1 to 3 MB, different for each i.
func hostileSchema(i int) string {
	numbers := make([]string, 9_000)
	for n := range numbers {
		numbers[n] = strconv.Itoa(n)
	}
	return fmt.Sprintf(`{"title":"%d","enum":[%s],"pattern":"[a-z\\p{L}]{500}x%d"}`, i, strings.Join(numbers, ","), i)
}

func schemaMemory(t *testing.T, _ harness.Engine, data string, vars ...string) {
	h := harness.Start(t, 0, data, append(vars, harness.MemoryVar, "HOLDFAST_EXTSTORAGE__SCHEMA_MEMORY="+strconv.Itoa(schemaMemoryLimit))...)
	namespaces := map[string]string{}
	for i := range hostileSchemas {
		namespaces[fmt.Sprint("ns", i)] = "rw"
	}
	attackers := []*ext.Install{NewInstall(t, 1), NewInstall(t, 2)} // same tenant; an install has only 32 namespaces
	for _, in := range attackers {
		in.Token = extToken(t, in.ID, namespaces, time.Now(), time.Hour)
	}
	neighbour := NewInstall(t, 3)
	neighbour.Token = tenantToken(t, "6b1f0a9e-2d4c-4f8b-8a3e-5c7d9e0f1a2b", neighbour.ID, map[string]string{"ns": "rw"}, time.Now(), time.Hour)
	setSchema(h, neighbour, "ns", `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)
	put := func(in *ext.Install, ns, value string, i int) {
		status := http.StatusCreated
		if i > 0 {
			status = http.StatusOK
		}
		WantExt(h, in, status, ext.Call{Method: http.MethodPut, Path: "/namespaces/" + ns + "/records/k", Body: `{"value":` + value + `}`})
	}
	put(neighbour, "ns", `{"n":0}`, 0)
	h.ResetPeak()

	over := make(chan struct{})
	puts := 0
	var beside sync.WaitGroup
	beside.Go(func() {
		for ; !harness.Closed(over); puts++ {
			put(neighbour, "ns", fmt.Sprintf(`{"n":%d}`, puts), 1)
			harness.Pause(over, 100*time.Millisecond)
		}
	})
	var all sync.WaitGroup
	work := make(chan int)
	for range 8 {
		all.Go(func() {
			for i := range work {
				ns, attacker := fmt.Sprint("ns", i), attackers[i%2]
				setSchema(h, attacker, ns, hostileSchema(i))
				put(attacker, ns, "7", 0)
				put(attacker, ns, "8", 1)
			}
		})
	}
	for i := range hostileSchemas {
		work <- i
	}
	close(work)
	all.Wait()
	wide := WantExt(h, attackers[0], http.StatusBadRequest, ext.Call{Method: http.MethodPost, Path: "/namespaces/ns0/schemas", Body: `{"schema":{"pattern":"^[a-z\\p{L}]{900}x0"}}`})
	if text := wide.Body; !strings.Contains(text, `"pointer":"/schema/pattern"`) || !strings.Contains(text, "500000 ranges") {
		t.Errorf("pattern with a wide character class: %s", text)
	}
	close(over)
	beside.Wait()

	peak := h.Resident("VmHWM")
	t.Logf("%d MB at the peak, %d puts of the neighbour", peak>>20, puts)
	if most := int64(harness.RequestMemory + schemaMemoryLimit + harness.MemoryOverhead); peak > most {
		t.Errorf("%d MB at the peak, want at most %d MB", peak>>20, most>>20)
	}
	h.Server.AwaitAnswer("/metrics", func(_ int, metrics string) bool {
		held, given := metric(metrics, "storage_schema_cache_bytes"), metric(metrics, "storage_schema_cache_evictions_total")
		return held <= schemaMemoryLimit && held > schemaMemoryLimit/2 && given > hostileSchemas/2
	})
}

func setSchema(h *harness.Instance, in *ext.Install, ns, document string) {
	h.T.Helper()
	path := "/namespaces/" + ns + "/schemas"
	made := WantExt(h, in, http.StatusCreated, ext.Call{Method: http.MethodPost, Path: path, Body: `{"schema":` + document + `}`})
	var schema struct{ Version int }
	if err := json.Unmarshal([]byte(made.Body), &schema); err == nil {
		WantExt(h, in, http.StatusOK, ext.Call{
			Method: http.MethodPatch, Path: fmt.Sprint(path, "/", schema.Version), Body: `{"status":"active"}`,
			Header: map[string]string{"Content-Type": "application/json"},
		})
	}
}

func metric(metrics, name string) (n float64) {
	if found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(metrics); found != nil {
		n, _ = strconv.ParseFloat(found[1], 64)
	}
	return n
}
