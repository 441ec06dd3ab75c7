// Package docs embeds the guides, which the server shows on its admin listener.
package docs

import "embed"

// Files are the guides and the files that they link to. The decisions are for developers, and left out.
//
//go:embed *.md images/*.webp events/*.json monitoring/alerts.yml monitoring/holdfast-dashboard.json
var Files embed.FS
