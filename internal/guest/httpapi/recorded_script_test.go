package httpapi_test

const (
	recordedTenant   = "11111111-2222-4333-8444-555555555555"
	recordedProperty = "22222222-2222-4333-8444-555555555555"
	recordedStay     = `{"checkIn":"2036-12-30","checkOut":"2037-01-02","adults":2,"children":1,"rooms":1,"currency":"EUR","locale":"de-AT"}`
	recordedWish     = `{"tenantId":"` + recordedTenant + `","propertyId":"` + recordedProperty + `","source":"list","note":"for <May>"}`
)

// script is sent by TestRecordedAnswers. It contains every guest and booking site operation, each also with an
// invalid field.
var script = []played{
	{name: "session of nobody", method: "GET", path: "/session"},
	{name: "wishlist of nobody", method: "GET", path: "/wishlist"},
	{name: "begin", method: "POST", path: "/session", headers: []string{"X-Campaign-Source: mail", "X-Campaign-Name: autumn"}},
	{name: "begin again", method: "POST", path: "/session"},
	{name: "preferences", method: "PATCH", path: "/session/preferences", body: `{"locale":"de-AT","currency":"CHF"}`},
	{name: "wrong locale", method: "PATCH", path: "/session/preferences", body: `{"locale":"german!"}`},
	{name: "wrong currency", method: "PATCH", path: "/session/preferences", body: `{"currency":"eur"}`},
	{name: "unknown preference", method: "PATCH", path: "/session/preferences", body: `{"color":"red"}`},
	{name: "session", method: "GET", path: "/session"},

	{name: "no wishes", method: "GET", path: "/wishlist"},
	{name: "add wish", method: "POST", path: "/wishlist", body: recordedWish},
	{name: "add wish repeated", method: "POST", path: "/wishlist", body: recordedWish, headers: []string{"Idempotency-Key: add-wish"}},
	{name: "add wish with the key of another", method: "POST", path: "/wishlist", body: `{"tenantId":"` + recordedTenant + `","propertyId":"` + recordedTenant + `","source":"map"}`, headers: []string{"Idempotency-Key: add-wish"}},
	{name: "add wish without a key", method: "POST", path: "/wishlist", body: recordedWish, headers: []string{"Idempotency-Key"}},
	{name: "add wish again", method: "POST", path: "/wishlist", body: recordedWish},
	{name: "add second wish", method: "POST", path: "/wishlist", body: `{"tenantId":"tnt_0H248H248J8CS8GH2NANANANAN","propertyId":"33333333-2222-4333-8444-555555555555","source":"detail"}`},
	{name: "wish of another tenant", method: "POST", path: "/wishlist", body: `{"tenantId":"` + recordedProperty + `","propertyId":"` + recordedProperty + `","source":"list"}`},
	{name: "item that is no UUID", method: "POST", path: "/wishlist", body: `{"tenantId":"` + recordedTenant + `","propertyId":"sku-4711","source":"list"}`},
	{name: "tenant that is no UUID", method: "POST", path: "/wishlist", body: `{"tenantId":"t","propertyId":"` + recordedProperty + `","source":"list"}`},
	{name: "unknown source", method: "POST", path: "/wishlist", body: `{"tenantId":"` + recordedTenant + `","propertyId":"` + recordedProperty + `","source":"mail"}`},
	{name: "unknown member of a wish", method: "POST", path: "/wishlist", body: `{"itemId":"sku-4711","quantity":2}`},
	{name: "wish of a wrong type", method: "POST", path: "/wishlist", body: `{"tenantId":7}`},
	{name: "wish that is no object", method: "POST", path: "/wishlist", body: `[]`},
	{name: "wish that is no JSON", method: "POST", path: "/wishlist", body: `{"tenantId"`},
	{name: "wish as text", method: "POST", path: "/wishlist", body: recordedWish, headers: []string{"Content-Type: text/plain"}},
	{name: "wish from another site", method: "POST", path: "/wishlist", body: recordedWish, headers: []string{"Origin: https://shop.example"}},
	{name: "note", method: "PATCH", path: "/wishlist/" + recordedProperty, body: `{"note":"for June"}`},
	{name: "note of nothing", method: "PATCH", path: "/wishlist/" + recordedTenant, body: `{"note":"x"}`},
	{name: "note of no UUID", method: "PATCH", path: "/wishlist/sku-4711", body: `{"note":"x"}`},
	{name: "no note", method: "PATCH", path: "/wishlist/" + recordedProperty, body: `{}`},
	{name: "quantity", method: "PATCH", path: "/wishlist/" + recordedProperty, body: `{"quantity":2}`},
	{name: "wishes", method: "GET", path: "/wishlist"},
	{name: "first wish", method: "GET", path: "/wishlist?limit=1"},
	{name: "wrong limit", method: "GET", path: "/wishlist?limit=0"},
	{name: "remove wish", method: "DELETE", path: "/wishlist/" + recordedProperty},
	{name: "remove wish again", method: "DELETE", path: "/wishlist/" + recordedProperty, headers: []string{"Idempotency-Key"}},
	{name: "remove no UUID", method: "DELETE", path: "/wishlist/sku-4711"},
	{name: "method of a wishlist", method: "PUT", path: "/wishlist", body: `{}`},
	{name: "unknown path", method: "GET", path: "/items/sku-4711"},

	{name: "viewed", method: "POST", path: "/session/recently-viewed", body: `{"tenantId":"` + recordedTenant + `","propertyId":"` + recordedProperty + `"}`},
	{name: "viewed no UUID", method: "POST", path: "/session/recently-viewed", body: `{"tenantId":"` + recordedTenant + `","propertyId":"sku-4711"}`},
	{name: "unknown member of a view", method: "POST", path: "/session/recently-viewed", body: `{"itemId":"sku-4711"}`},
	{name: "recently viewed", method: "GET", path: "/session/recently-viewed"},

	{name: "search", method: "POST", path: "/search", body: `{"country":"AT","region":"vienna","checkIn":"2036-12-30","checkOut":"2037-01-02","pageSize":2,"currency":"EUR","locale":"en"}`, keep: map[string]string{"search": "searchId"}},
	{name: "search cached", method: "POST", path: "/search", body: `{"country":"at","region":"Vienna","checkIn":"2036-12-30","checkOut":"2037-01-02","pageSize":2,"currency":"EUR","locale":"en"}`},
	{name: "search continued", method: "GET", path: "/search/{search}?page=2"},
	{name: "search expired", method: "GET", path: "/search/srs_01J8ZQ4Y7N5M3K2H1G0F9E8D7B"},
	{name: "search with criteria", method: "POST", path: "/search", body: `{"criteria":{"text":"socks"}}`},
	{name: "search without departure", method: "POST", path: "/search", body: `{"checkIn":"2036-12-30"}`},
	{name: "search of a crowd", method: "POST", path: "/search", body: `{"adults":31}`},
	{name: "map", method: "POST", path: "/search/map", body: `{"country":"AT","region":"vienna","bounds":{"south":48,"west":16,"north":49,"east":17},"currency":"EUR","locale":"en"}`},
	{name: "history", method: "GET", path: "/session/history"},
	{name: "hotel", method: "GET", path: "/hotels/" + recordedProperty + "?locale=en&currency=EUR", headers: []string{"Cookie"}},
	{name: "hotel seen by a guest", method: "GET", path: "/hotels/" + recordedProperty + "?locale=en&currency=EUR"},
	{name: "hotel that is no UUID", method: "GET", path: "/hotels/sku-4711"},
	{name: "hotel in no language", method: "GET", path: "/hotels/" + recordedProperty + "?locale=!"},
	{name: "availability", method: "GET", path: "/hotels/" + recordedProperty + "/availability?from=2036-12-30&to=2037-01-02"},
	{name: "availability without dates", method: "GET", path: "/hotels/" + recordedProperty + "/availability"},
	{name: "facets", method: "GET", path: "/facets/AT/vienna"},
	{name: "no facets", method: "GET", path: "/facets/AT/atlantis"},
	{name: "brand", method: "GET", path: "/brands/" + recordedTenant + "/peek"},
	{name: "no brand", method: "GET", path: "/brands/" + recordedProperty + "/peek"},

	{name: "page views", method: "POST", path: "/telemetry/page-view", body: `{"items":[{"page":"detail","tenantId":"` + recordedTenant + `","propertyId":"` + recordedProperty + `","durationMs":900},{"page":"home","occurredAt":"2036-01-01T00:00:00Z"}]}`},
	{name: "wrong page views", method: "POST", path: "/telemetry/page-view", body: `{"items":[{"page":"shop"},{"page":"list","propertyId":"sku-4711"},{"itemId":"a"}]}`},
	{name: "funnel", method: "POST", path: "/telemetry/funnel", body: `{"items":[{"step":"availability","propertyId":"` + recordedProperty + `","occurredAt":"2036-01-01T00:00:00Z"}]}`},
	{name: "wrong funnel", method: "POST", path: "/telemetry/funnel", body: `{"items":[{"step":"checkout"}]}`},
	{name: "no funnel", method: "POST", path: "/telemetry/funnel", body: `{"items":[]}`},

	{name: "no handoffs", method: "GET", path: "/handoff"},
	{name: "mint", method: "POST", path: "/handoff/" + recordedTenant + "/" + recordedProperty, body: recordedStay, keep: map[string]string{"handoff": "handoffId", "token": "token"}},
	{name: "mint repeated", method: "POST", path: "/handoff/" + recordedTenant + "/" + recordedProperty, body: recordedStay, headers: []string{"Idempotency-Key: mint"}},
	{name: "mint with preferences", method: "POST", path: "/handoff/" + recordedTenant + "/" + recordedProperty, body: `{"checkIn":"2036-12-30","checkOut":"2036-12-31","adults":1,"campaign":{"source":"x"}}`},
	{name: "mint of no UUID", method: "POST", path: "/handoff/" + recordedTenant + "/sku-4711", body: recordedStay},
	{name: "mint to no tenant", method: "POST", path: "/handoff/t/" + recordedProperty, body: recordedStay},
	{name: "mint of an unknown hotel", method: "POST", path: "/handoff/" + recordedTenant + "/99999999-2222-4333-8444-555555555555", body: recordedStay},
	{name: "mint of nobody", method: "POST", path: "/handoff/" + recordedTenant + "/" + recordedProperty, body: `{"checkIn":"2036-12-30","checkOut":"2036-12-31"}`},
	{name: "mint that ends early", method: "POST", path: "/handoff/" + recordedTenant + "/" + recordedProperty, body: `{"checkIn":"2036-12-30","checkOut":"2036-12-30","adults":1}`},
	{name: "mint of no date", method: "POST", path: "/handoff/" + recordedTenant + "/" + recordedProperty, body: `{"checkIn":"tomorrow","checkOut":"2036-12-30","adults":1}`},
	{name: "mint with a payload", method: "POST", path: "/handoff/" + recordedTenant + "/" + recordedProperty, body: `{"payload":{"items":[]}}`},
	{name: "mint with a wrong campaign", method: "POST", path: "/handoff/" + recordedTenant + "/" + recordedProperty, body: `{"checkIn":"2036-12-30","checkOut":"2036-12-31","adults":1,"campaign":[]}`},
	{name: "handoffs", method: "GET", path: "/handoff"},

	{name: "verify", method: "POST", path: "/internal/handoff/{handoff}/verify", body: `{"token":"{token}"}`},
	{name: "consume from another browser", method: "POST", path: "/internal/handoff/{handoff}/consume", body: `{"token":"{token}","guest":{"userAgent":"other","acceptLanguage":"","ip":"192.0.2.1"}}`},
	{name: "consume with a wrong token", method: "POST", path: "/internal/handoff/{handoff}/consume", body: `{"token":"x"}`},
	{name: "consume without a token", method: "POST", path: "/internal/handoff/{handoff}/consume", body: `{}`},
	{name: "consume as nobody", method: "POST", path: "/internal/handoff/{handoff}/consume", body: `{"token":"{token}"}`, headers: []string{"Authorization"}},
	{name: "consume nothing", method: "POST", path: "/internal/handoff/bhd_01J8ZQ4Y7N5M3K2H1G0F9E8D7B/consume", body: `{"token":"{token}"}`},
	{name: "consume", method: "POST", path: "/internal/handoff/{handoff}/consume", body: `{"token":"{token}","guest":{"userAgent":"recorder/1","acceptLanguage":"","ip":"192.0.2.1"}}`},
	{name: "consume repeated", method: "POST", path: "/internal/handoff/{handoff}/consume", body: `{"token":"{token}"}`, headers: []string{"Idempotency-Key: consume"}},
	{name: "consume again", method: "POST", path: "/internal/handoff/{handoff}/consume", body: `{"token":"{token}"}`},
	{name: "handoffs after that", method: "GET", path: "/handoff"},

	{name: "change of nobody", method: "POST", path: "/wishlist", body: recordedWish, other: true},
	{name: "change of somebody", method: "POST", path: "/wishlist", body: recordedWish, other: true},
	{name: "search of another", method: "GET", path: "/search/{search}", other: true},
	{name: "clear", method: "POST", path: "/session/clear"},
	{name: "wishes after clear", method: "GET", path: "/wishlist"},
}

// scriptAfterEvents contains requests whose events differ from the recording.
var scriptAfterEvents = []played{
	{name: "search in the past", method: "POST", path: "/search", body: `{"checkIn":"2020-12-30","checkOut":"2020-12-31"}`},
}
