package jsonschema

import (
	"crypto/sha256"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"
)

// Cache keeps the schemas that were used last. The key is the hash of the
// document and nothing else, so that tenants who have the same document share
// it, and those who only gave theirs the same $id do not.
type Cache struct {
	compiling singleflight.Group

	mu     sync.Mutex
	recent *simplelru.LRU[[sha256.Size]byte, *Schema]
	bytes  int // of the documents in recent, with the overhead of each
	most   int
}

// overhead is what is charged for a schema besides its document, so that there
// are not too many small ones.
const overhead = 1 << 10

// NewCache makes a cache of documents of so many bytes together. A compiled
// schema takes some 100 times its document, and that again for each processor
// that was busy with it at the same time.
func NewCache(bytes int) *Cache {
	c := &Cache{most: bytes}
	var err error
	c.recent, err = simplelru.NewLRU(bytes/overhead+1, func(_ [sha256.Size]byte, s *Schema) { c.bytes -= charge(s) })
	if err != nil {
		panic(err) // of a size that is not positive
	}
	return c
}

func charge(s *Schema) int { return len(s.document.text) + overhead }

// Schema is Compile, once for each document however many ask at a time. An
// error is not kept: what is stored has passed Check.
func (c *Cache) Schema(text []byte) (*Schema, error) {
	hash := sha256.Sum256(text)
	if s, ok := c.get(hash); ok {
		return s, nil
	}
	s, err, _ := c.compiling.Do(string(hash[:]), func() (any, error) {
		if s, ok := c.get(hash); ok { // somebody was done since
			return s, nil
		}
		s, err := Compile(text)
		if err == nil {
			c.add(hash, s)
		}
		return s, err
	})
	if err != nil {
		return nil, err
	}
	return s.(*Schema), nil
}

func (c *Cache) get(hash [sha256.Size]byte) (*Schema, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Get(hash)
}

func (c *Cache) add(hash [sha256.Size]byte, s *Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += charge(s)
	c.recent.Add(hash, s)
	for c.bytes > c.most && c.recent.Len() > 1 {
		c.recent.RemoveOldest()
	}
}
