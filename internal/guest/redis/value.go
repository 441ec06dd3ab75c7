package redis

import (
	"context"
	"encoding/json"
	"time"

	"github.com/redis/rueidis"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
)

// record is a claim (Owner) or a stored answer (the rest), as JSON.
type record struct {
	Owner   string `json:"owner,omitempty"`
	Digest  []byte `json:"digest,omitempty"`
	Version int    `json:"status,omitempty"`
	Body    []byte `json:"body,omitempty"`
}

// text encodes the record.
func (r record) text() (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", errcode.Wrap(errcode.Internal, "encode an answer", err)
	}
	return string(text), nil
}

// answer returns the key of an answer.
func (h *Hot) answer(key string) string { return h.prefix() + "idem:" + tag(key) }

// ClaimAnswer implements guest.HotAnswers.
func (h *Hot) ClaimAnswer(ctx context.Context, key, owner string) (a guest.AnswerClaim, err error) {
	claim, err := record{Owner: owner}.text()
	if err != nil {
		return a, err
	}
	err = h.run(ctx, "claim_answer", func(ctx context.Context, c rueidis.Client) error {
		text, err := c.Do(ctx, c.B().Set().Key(h.answer(key)).Value(claim).Nx().Get().PxMilliseconds(guest.ClaimLife.Milliseconds()).Build()).AsBytes()
		if rueidis.IsRedisNil(err) {
			a.Claimed = true
			return nil
		}
		if err != nil {
			return err
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil || r.Owner == "" && len(r.Digest) != len(a.Digest) {
			return errcode.Wrap(errcode.Internal, "an answer in Redis is malformed", err)
		}
		if r.Owner == "" {
			a = guest.AnswerClaim{Done: true, Digest: [32]byte(r.Digest), Answer: guest.StoredAnswer{Version: r.Version, Body: r.Body}}
		}
		return nil
	})
	return a, err
}

// PutAnswer implements guest.HotAnswers.
func (h *Hot) PutAnswer(ctx context.Context, key string, digest [32]byte, a guest.StoredAnswer) error {
	text, err := record{Digest: digest[:], Version: a.Version, Body: a.Body}.text()
	if err != nil {
		return err
	}
	return h.run(ctx, "put_answer", func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(h.answer(key)).Value(text).ExSeconds(int64(guest.MutationLife/time.Second)).Build()).Error()
	})
}

var scriptRelease = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)

// ReleaseAnswer implements guest.HotAnswers.
func (h *Hot) ReleaseAnswer(ctx context.Context, key, owner string) error {
	claim, err := record{Owner: owner}.text()
	if err != nil {
		return err
	}
	return h.script(ctx, command{"release_answer", scriptRelease, []string{h.answer(key)}, []string{claim}}, ignore)
}

// DropAnswers implements guest.HotAnswers.
func (h *Hot) DropAnswers(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return h.run(ctx, "drop_answers", func(ctx context.Context, c rueidis.Client) error {
		commands := make(rueidis.Commands, len(keys))
		for i, key := range keys {
			commands[i] = c.B().Del().Key(h.answer(key)).Build()
		}
		for _, r := range c.DoMulti(ctx, commands...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
		return nil
	})
}

// cacheKeys returns the keys of a cached answer and its lock.
func (h *Hot) cacheKeys(key string) []string {
	return []string{h.prefix() + tag(key), h.prefix() + "lock:" + tag(key)}
}

// The owner of a lock that FailCached set.
const failed = "failed"

var scriptCached = rueidis.NewLuaScript(`
local owner = redis.call('GET', KEYS[2])
local locked = 0
if owner then locked = math.max(1, redis.call('PTTL', KEYS[2])) end
return {redis.call('GET', KEYS[1]), math.max(1, redis.call('PTTL', KEYS[1])), locked, owner == ARGV[1] and 1 or 0}`)

// Cached implements catalogue.Hot.
func (h *Hot) Cached(ctx context.Context, key string) (v catalogue.CachedValue, err error) {
	err = h.script(ctx, command{"cached", scriptCached, h.cacheKeys(key), []string{failed}}, func(r rueidis.RedisResult) error {
		reply, err := r.ToArray()
		if err != nil {
			return err
		}
		var numbers [3]int64
		for i := range numbers {
			if numbers[i], err = reply[i+1].ToInt64(); err != nil {
				return err
			}
		}
		v.Locked, v.Failed = time.Duration(numbers[1])*time.Millisecond, numbers[2] == 1
		if reply[0].IsNil() {
			return nil
		}
		v.Found, v.Left = true, time.Duration(numbers[0])*time.Millisecond
		v.Value, err = reply[0].AsBytes()
		return err
	})
	return v, err
}

// PutCached implements catalogue.Hot.
func (h *Hot) PutCached(ctx context.Context, key string, value []byte, life time.Duration) error {
	return h.run(ctx, "put_cached", func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(h.cacheKeys(key)[0]).Value(rueidis.BinaryString(value)).PxMilliseconds(max(1, life.Milliseconds())).Build()).Error()
	})
}

var (
	scriptLock = rueidis.NewLuaScript(`
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
	scriptFill = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('DEL', KEYS[2])
return 1`)
	scriptFail = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)
)

// yes stores whether a script returned 1.
func yes(into *bool) func(rueidis.RedisResult) error {
	return func(r rueidis.RedisResult) error {
		n, err := r.AsInt64()
		*into = n == 1
		return err
	}
}

// Lock implements catalogue.Hot.
func (h *Hot) Lock(ctx context.Context, key, owner string, life time.Duration) (locked bool, err error) {
	err = h.script(ctx, command{"lock", scriptLock, h.cacheKeys(key)[1:], []string{owner, millis(life)}}, yes(&locked))
	return locked, err
}

// Unlock implements catalogue.Hot.
func (h *Hot) Unlock(ctx context.Context, key, owner string) (had bool, err error) {
	err = h.script(ctx, command{"unlock", scriptRelease, h.cacheKeys(key)[1:], []string{owner}}, yes(&had))
	return had, err
}

// FillCached implements catalogue.Hot.
func (h *Hot) FillCached(ctx context.Context, key, owner string, value []byte, life time.Duration) (stored bool, err error) {
	err = h.script(ctx, command{"fill_cached", scriptFill, h.cacheKeys(key), []string{owner, rueidis.BinaryString(value), millis(life)}}, yes(&stored))
	return stored, err
}

// FailCached implements catalogue.Hot.
func (h *Hot) FailCached(ctx context.Context, key, owner string, life time.Duration) (marked bool, err error) {
	err = h.script(ctx, command{"fail_cached", scriptFail, h.cacheKeys(key)[1:], []string{owner, failed, millis(life)}}, yes(&marked))
	return marked, err
}
