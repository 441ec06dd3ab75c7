package extstorage_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/extstorage/storetest"
)

// traps are known mistakes in such stores, with the tests that detect them: "Group/Test" in the suite, or
// "package.Test".
var traps = []struct{ what, tests string }{
	1:  {"two first puts of a key get the same revision", "Revisions/FirstWriters Revisions/WithoutGap postgres.TestFirstWriters postgres.TestTwoWaiters"},
	2:  {"no way to say that a record must not exist yet", "Preconditions/CreateOnly Preconditions/OneWins httpapi.TestPreconditions"},
	3:  {"a precondition meets another life of the key", "Preconditions/EarlierLifeOfADeletedKey Preconditions/EarlierLifeOfAnExpiredKey httpapi.TestTagOfAnEarlierLife"},
	4:  {"a write counts the rows of the install", "postgres.TestWritesCountNothing postgres.TestPlans sqlite.TestPlans"},
	5:  {"counters drift from what is stored", "Usage/EveryMoment Usage/LiveRecords Revisions/MixedBatches"},
	6:  {"a read removes what has expired, or waits for who does", "Expiry/ReadsDoNotWrite Sweep/Bounded postgres.TestOthersDoNotWait"},
	7:  {"writers wait for each other in a circle", "postgres.TestNoDeadlock Batch/Transfer"},
	8:  {"a page leaves out the record that the cursor names", "List/Pages List/PagesOfOne List/PagesUnderWrites httpapi.TestPagesMeet"},
	9:  {"a cursor is good for other questions, or can be edited", "extstorage.TestCursors httpapi.TestCursorIsBound"},
	10: {"false in a query counts as true", "httpapi.TestBooleansOfQueries"},
	11: {"a revision that is none counts as one that does not match", "httpapi.TestRevisionHeaderThatIsNone"},
	12: {"the order of keys is the locale's, and a prefix a pattern", "List/ByteOrder List/Prefix List/PrefixAtTheEndOfUnicode postgres.TestTables sqlite.TestPlans"},
	13: {"a version that is not active lets every value pass", "Registry/PutUnderASchemaThatChanges Registry/PutsAgainstActivations extstorage.TestSchemaVersion extstorage.TestPutMeetsActivation"},
	14: {"a value that is an array is validated element by element", "extstorage.TestArraysAreValidatedWhole httpapi.TestArraysAreValidatedWhole"},
	15: {"another dialect, unknown formats, validators that pile up or meet by $id", "jsonschema.TestCheckRefuses jsonschema.TestCheckAccepts jsonschema.TestCacheKeepsTenantsApart jsonschema.TestCacheHasABudget"},
	16: {"schemas that no client can register; no audit, limits or permissions", "Registry/LifeCycle Audit/PutsAndDeletes extstorage.TestAccess extstorage.TestCheckSchema httpapi.TestRates"},
	17: {"an install is looked for on all nodes", "postgres.TestDistribution postgres.TestOneMessage"},
	18: {"who asks says whose tenant he is", "extstorage.TestParseGrant Isolation/SameInstallOfAnotherTenant httpapi.TestAnotherInstall"},
	19: {"the runner's values are strings, its pages end, its deletes conflict", "httpapi.TestRunner"},
	20: {"errors have two shapes", "httpapi.TestShapes httpapi.TestRunner"},
	21: {"what Citus refuses in an upsert, and values that are plain strings", "postgres.TestStoreOnCitus Values/CanonicalText"},
	22: {"integers over 2^53 are rounded", "Values/ExactNumbers canonjson.TestCanonical canonjson.TestIncrement httpapi.TestNumbersAreExact"},
	23: {"a short number becomes a long text", "canonjson.TestNumbersWrittenOut canonjson.TestGrowthInJSONB Values/NumbersOfManyDigits"},
	24: {"NUL, lone surrogates, depth and members that are there twice reach the database", "canonjson.TestRefusedValues canonjson.TestRoundTripThroughJSONB canonjson.TestMergeLimits"},
	25: {"an empty key", "extstorage.TestKeys postgres.TestTables"},
	26: {"an index with the columns of the primary key", "postgres.TestTables"},
	27: {"a sweep reads every row that can ever expire", "postgres.TestPlans sqlite.TestPlans Sweep/Bounded"},
	28: {"a table without a primary key does not move online", "postgres.TestTables"},
	29: {"the row that all writes of an install update", "postgres.TestTables postgres.TestOthersDoNotWait"},
	30: {"a check that stored rows break", "postgres.TestTables"},
	31: {"an index that is made again is declared invalid", "pgdb.TestEnsureIndex postgres.TestInspectCitus"},
}

func TestTraps(t *testing.T) {
	t.Parallel()
	known := storetest.Names()
	for _, dir := range []string{".", "httpapi", "../jsonschema", "postgres", "sqlite", "../canonjson", "../db/pgdb"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		pkg := filepath.Base(dir)
		if dir == "." {
			pkg = "extstorage"
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllStringSubmatch(string(text), -1) {
				known = append(known, pkg+"."+m[1])
			}
		}
	}
	for n, trap := range traps[1:] {
		for name := range strings.FieldsSeq(trap.tests) {
			if !slices.Contains(known, name) {
				t.Errorf("trap %d, %s: there is no %s", n+1, trap.what, name)
			}
		}
	}
}
