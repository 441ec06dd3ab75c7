package builtin

import "holdfast/internal/guest/catalogue"

type region struct {
	country, name, city, currency, zone string
	latitude, longitude                 float64
}

var regions = []region{
	{"AT", "vienna", "Vienna", "EUR", "Europe/Vienna", 48.2082, 16.3738},
	{"AT", "salzburg", "Salzburg", "EUR", "Europe/Vienna", 47.8095, 13.0550},
	{"AT", "tyrol", "Innsbruck", "EUR", "Europe/Vienna", 47.2692, 11.4041},
	{"CH", "zurich", "Zurich", "CHF", "Europe/Zurich", 47.3769, 8.5417},
	{"CH", "geneva", "Geneva", "CHF", "Europe/Zurich", 46.2044, 6.1432},
	{"CZ", "prague", "Prague", "CZK", "Europe/Prague", 50.0755, 14.4378},
	{"DE", "berlin", "Berlin", "EUR", "Europe/Berlin", 52.5200, 13.4050},
	{"DE", "bavaria", "Munich", "EUR", "Europe/Berlin", 48.1351, 11.5820},
	{"DE", "hamburg", "Hamburg", "EUR", "Europe/Berlin", 53.5511, 9.9937},
	{"DK", "copenhagen", "Copenhagen", "DKK", "Europe/Copenhagen", 55.6761, 12.5683},
	{"ES", "catalonia", "Barcelona", "EUR", "Europe/Madrid", 41.3874, 2.1686},
	{"FR", "paris", "Paris", "EUR", "Europe/Paris", 48.8566, 2.3522},
	{"GB", "london", "London", "GBP", "Europe/London", 51.5072, -0.1276},
	{"IT", "lazio", "Rome", "EUR", "Europe/Rome", 41.9028, 12.4964},
	{"IT", "veneto", "Venice", "EUR", "Europe/Rome", 45.4408, 12.3155},
	{"PT", "lisbon", "Lisbon", "EUR", "Europe/Lisbon", 38.7223, -9.1393},
}

var (
	firstWords = []string{
		"Amber", "Linden", "Harbour", "Meadow", "Cedar", "Lantern", "Orchard", "Heron", "Willow", "Granite", "Juniper", "Swan", "Copper", "Larch",
		"Beacon", "Falcon", "Ivory", "Marigold", "Oak", "Summit", "Terrace", "Violet", "Bridge",
	}
	brandNames = []string{"Northlight", "Bluewater", "Silverleaf", "Greenfield", "Redstone", "Oldtown", "Highmoor", "Brightwell", "Stillwater", "Fairhaven"}
	brandKinds = []string{"Hotels", "Stays", "Collection", "Inns"}
	taglines   = []string{"Rest well.", "Close to everything.", "Quiet rooms, kind people.", "At home on the way.", "Sleep where the city begins."}
	colors     = []string{"#1f6f8b", "#8b3a1f", "#2e6b34", "#5b3a8c", "#7a5c00"}
	streets    = []string{"Station Street", "Garden Lane", "Market Square", "River Road", "Castle Hill", "Church Street", "Museum Quay"}
	amenities  = []string{"breakfast", "gym", "parking", "pets", "pool", "spa", "wheelchair", "wifi"}
	roomTypes  = [...]catalogue.RoomType{{Code: "double", Name: "Double room", Sleeps: 2}, {Code: "family", Name: "Family room", Sleeps: 4}, {Code: "suite", Name: "Suite", Sleeps: 4}}
)

// descriptions are formatted with name, city and stars.
var descriptions = map[string]string{
	"en": "%s is a hotel in %s with %d stars. It exists only in the built-in catalogue.",
	"de": "%s ist ein Hotel in %s mit %d Sternen. Es existiert nur im eingebauten Katalog.",
	"fr": "%s est un hôtel à %s avec %d étoiles. Il n’existe que dans le catalogue intégré.",
}
