// Command demopictures draws the pictures of the guest demo: hotels in their cities, rooms, and maps.
//
//	go run ./test/demopictures
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

const folder = "internal/guest/httpapi/demo/pictures"

func pictures() map[string]string {
	all := map[string]string{"breakfast.svg": breakfast(), "pool.svg": pool(), "spa.svg": spa(), "lobby.svg": lobby(), "mark.svg": mark()}
	for name, r := range rooms {
		all[name+".svg"] = r.picture(name)
	}
	for i := range cities {
		p := &cities[i]
		for variant := range lights {
			all[fmt.Sprintf("%s-%d.svg", p.name, variant)] = p.picture(variant)
		}
		all[p.name+"-map.svg"] = p.street()
	}
	return all
}

func main() {
	for name, text := range pictures() {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "demopictures:", err)
			os.Exit(1)
		}
	}
}
