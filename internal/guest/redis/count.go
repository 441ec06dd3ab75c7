package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts so
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/tenants"
)

// now reads the Redis clock in microseconds.
const now = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
`

// take implements guest.Limit.Take. The key stores when the bucket is full.
const take = now + `
local interval, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = math.min(math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now), now + most)
local next = full + interval
if next - now > most then return {0, full - now} end
redis.call('SET', KEYS[1], string.format('%.0f', next), 'PX', ARGV[3])
return {1, next - now}`

var takeSHA = func() string {
	sum := sha1.Sum([]byte(take)) //nolint:gosec // Redis names scripts so
	return hex.EncodeToString(sum[:])
}()

// Take implements guest.HotLimits.
func (h *Hot) Take(ctx context.Context, buckets []guest.Bucket) (all []guest.Taken, err error) {
	err = h.run(ctx, "take", func(ctx context.Context, c rueidis.Client) error {
		commands, again := make(rueidis.Commands, len(buckets)), make(rueidis.Commands, len(buckets))
		for i, b := range buckets {
			key := h.prefix() + "rl:" + tag(b.Key)
			interval, burst := b.Micros()
			args := []string{number(interval), number(burst), millis(b.Life())}
			commands[i] = c.B().Evalsha().Sha1(takeSHA).Numkeys(1).Key(key).Arg(args...).Build()
			again[i] = c.B().Eval().Script(take).Numkeys(1).Key(key).Arg(args...).Build()
		}
		for i, r := range c.DoMulti(ctx, commands...) {
			if reply, isReply := rueidis.IsRedisErr(r.Error()); isReply && reply.IsNoScript() {
				r = c.Do(ctx, again[i])
			}
			result, err := r.AsIntSlice()
			if err != nil {
				return err
			}
			all = append(all, buckets[i].Taken(result[0] == 1, result[1]))
		}
		return nil
	})
	return all, err
}

// Suspensions are stored in a hash, so that they cannot be lost in part: a field per tenant, the version, and a
// completeness marker. It never expires.
const (
	fieldComplete = "complete"
	fieldVersion  = "version"
)

// suspended returns the key of the hash with all suspensions.
func (h *Hot) suspended() string { return h.prefix() + "tenant-suspended" }

// Suspended implements tenants.Hot.
func (h *Hot) Suspended(ctx context.Context, tenants []string) (suspended []string, known bool, err error) {
	err = h.run(ctx, "suspended", func(ctx context.Context, c rueidis.Client) error {
		states, err := c.Do(ctx, c.B().Hmget().Key(h.suspended()).Field(fieldComplete).Field(tenants...).Build()).ToArray()
		if err != nil {
			return err
		}
		known = !states[0].IsNil()
		for i := range tenants {
			if state, err := states[i+1].ToString(); err == nil && strings.HasPrefix(state, "1:") {
				suspended = append(suspended, tenants[i])
			}
		}
		return nil
	})
	if !known {
		suspended = nil
	}
	return suspended, known, err
}

// SuspensionVersion implements tenants.Hot.
func (h *Hot) SuspensionVersion(ctx context.Context) (version int64, known bool, err error) {
	err = h.run(ctx, "suspension_version", func(ctx context.Context, c rueidis.Client) error {
		fields, err := c.Do(ctx, c.B().Hmget().Key(h.suspended()).Field(fieldComplete, fieldVersion).Build()).ToArray()
		if err != nil {
			return err
		}
		known = !fields[0].IsNil()
		if fields[1].IsNil() {
			return nil
		}
		text, err := fields[1].ToString()
		if err != nil {
			return err
		}
		if version, err = strconv.ParseInt(text, 10, 64); err != nil {
			return errcode.Wrap(errcode.Internal, "the version of the suspended tenants in Redis is malformed", err)
		}
		return nil
	})
	return version, known, err
}

var (
	scriptPutSuspensions = rueidis.NewLuaScript(`
local version = redis.call('HGET', KEYS[1], 'version') or '0'
if version ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'version', version, 'complete', '1')
for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1`)
	scriptSetSuspension = rueidis.NewLuaScript(`
redis.call('HINCRBY', KEYS[1], 'version', 1)
if redis.call('HEXISTS', KEYS[1], 'complete') == 0 then return 0 end
local state = redis.call('HGET', KEYS[1], ARGV[1])
if state and string.sub(state, 3) >= string.sub(ARGV[2], 3) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1`)
)

// stateOf encodes a tenant's state: suspended or not, then the event's time and ID. The text after the colon sorts by
// age: the time is fixed-length, and digits and a to f sort equally in every Redis locale.
func stateOf(s tenants.Suspension) string {
	state := "0:"
	if s.Suspended {
		state = "1:"
	}
	return state + fmt.Sprintf("%019d%x", s.At.UnixMicro(), s.Event)
}

// PutSuspensions implements tenants.Hot.
func (h *Hot) PutSuspensions(ctx context.Context, version int64, all []tenants.Suspension) (put bool, err error) {
	args := []string{number(version)}
	for _, s := range all {
		args = append(args, s.Tenant, stateOf(s))
	}
	err = h.script(ctx, command{"put_suspensions", scriptPutSuspensions, []string{h.suspended()}, args}, yes(&put))
	return put, err
}

// SetSuspension implements tenants.Hot.
func (h *Hot) SetSuspension(ctx context.Context, s tenants.Suspension) error {
	return h.script(ctx, command{"set_suspension", scriptSetSuspension, []string{h.suspended()}, []string{s.Tenant, stateOf(s)}}, ignore)
}
