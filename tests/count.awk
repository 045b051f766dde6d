# Reads the names of CTest's suites, one a line, and for each the TAP file that Criterion wrote:
# FOLDER/tap/ROOM_NAME.tap. A suite without one, or with fewer results than its plan, died half way: each result
# that is missing counts as failed. Prints failed and skipped tests, then the counts; exit code 1 if any failed.

BEGIN {
    while ((getline line < failed_suites) > 0) {
        sub(/^[0-9]+:/, "", line)
        ctest_failed[line] = 1
    }
    passed = failed = skipped = 0
}

NF > 0 {
    suite = $0
    file = suite
    gsub("/", "_", file)
    file = folder "/tap/" file ".tap"
    plan = results = bad = 0
    while ((getline line < file) > 0) {
        if (line ~ /^1\.\.[0-9]+/) plan = substr(line, 4) + 0
        if (line !~ /^(not )?ok/) continue
        results++
        name = line
        sub(/^(not )?ok *-? */, "", name)
        if (line ~ /^not ok/) {
            bad++
            print "failed: " suite ": " name
        } else if (line ~ /# SKIP/) {
            skipped++
            sub(/ *# SKIP */, ": ", name)
            print "skipped: " suite ": " name
        } else {
            passed++
        }
    }
    close(file)
    if (results < plan) {
        print "failed: " suite ": " plan - results " of " plan " tests gave no result"
        bad += plan - results
    } else if (bad == 0 && (plan == 0 || suite in ctest_failed)) {
        print "failed: " suite ": the suite crashed, ran out of time, or reported an error as it ended"
        bad++
    }
    failed += bad
}

END {
    print passed " passed, " failed " failed, " skipped " skipped"
    exit failed > 0
}
