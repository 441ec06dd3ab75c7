package catalogue

import "holdfast/internal/guest"

// region is where hotels are.
type region struct {
	country, name, city, currency string
	latitude, longitude           float64
}

var regions = []region{
	{"AT", "vienna", "Vienna", "EUR", 48.2082, 16.3738},
	{"AT", "salzburg", "Salzburg", "EUR", 47.8095, 13.0550},
	{"AT", "tyrol", "Innsbruck", "EUR", 47.2692, 11.4041},
	{"CH", "zurich", "Zurich", "CHF", 47.3769, 8.5417},
	{"CH", "geneva", "Geneva", "CHF", 46.2044, 6.1432},
	{"CZ", "prague", "Prague", "CZK", 50.0755, 14.4378},
	{"DE", "berlin", "Berlin", "EUR", 52.5200, 13.4050},
	{"DE", "bavaria", "Munich", "EUR", 48.1351, 11.5820},
	{"DE", "hamburg", "Hamburg", "EUR", 53.5511, 9.9937},
	{"DK", "copenhagen", "Copenhagen", "DKK", 55.6761, 12.5683},
	{"ES", "catalonia", "Barcelona", "EUR", 41.3874, 2.1686},
	{"FR", "paris", "Paris", "EUR", 48.8566, 2.3522},
	{"GB", "london", "London", "GBP", 51.5072, -0.1276},
	{"IT", "lazio", "Rome", "EUR", 41.9028, 12.4964},
	{"IT", "veneto", "Venice", "EUR", 45.4408, 12.3155},
	{"PT", "lisbon", "Lisbon", "EUR", 38.7223, -9.1393},
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
	roomTypes  = [...]guest.RoomType{{Code: "double", Name: "Double room", Sleeps: 2}, {Code: "family", Name: "Family room", Sleeps: 4}, {Code: "suite", Name: "Suite", Sleeps: 4}}
)

// descriptions have the name, the city and the stars.
var descriptions = map[string]string{
	"en": "%s is a hotel in %s with %d stars. It exists only in the built-in catalogue.",
	"de": "%s ist ein Hotel in %s mit %d Sternen. Es existiert nur im eingebauten Katalog.",
	"fr": "%s est un hôtel à %s avec %d étoiles. Il n’existe que dans le catalogue intégré.",
}
