# Sourced by run and test, not started by itself: a virtual environment beside scripts/, brought up to date when needed.
#
#   ensure_environment EXTRAS   makes $root/.venv hold the project (editable) with these extras; sets $python
#   ensure_spark VERSION        makes $root/.venv/spark-VERSION hold that PySpark, for PYTHONPATH; sets $spark
#
# Costs some ten milliseconds when there is nothing to do.  Two at once are safe: one installs, the other waits for it.

# Without one in the environment bash has a PATH of its own; compilers need it, too.
export PATH

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
root=$(dirname -- "$here")
python=$root/.venv/bin/python

# The newest Python from 3.11 on that can make environments, or an explanation.
find_python() {
    local candidate path
    for candidate in python3.14 python3.13 python3.12 python3.11 python3 python; do
        path=$(command -v "$candidate") || continue
        if "$path" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$path"
            return 0
        fi
    done
    cat >&2 <<'TEXT'
Penstock needs Python 3.11 or newer with the modules venv and ensurepip, and found none on the PATH.
On Debian and Ubuntu: apt install python3 python3-venv
TEXT
    return 1
}

# The inputs of an installation: the project file, the native functions, the directory (scripts in .venv contain it), the
# extras.
wanted_state() {
    local inputs
    inputs=$({ cat "$root/pyproject.toml" "$root/setup.py"
        find "$root/engine" "$root/protocols" -name '*.[ch]' -print0 | LC_ALL=C sort -z | xargs -0 cat; } | cksum)
    printf '%s %s %s\n' "$inputs" "$root" "$1"
}

is_installed() {
    [[ -x $python && -f $root/.venv/installed && $(<"$root/.venv/installed") == "$(wanted_state "$1")" ]]
}

ensure_environment() {
    local extras=$1 base how=()
    # The tests keep bytecode in .venv/pycache, where pip puts none: what it makes, 15 s of a processor, would serve nobody.
    [[ $extras != *dev* ]] || how=(--no-compile)
    # The larger set serves the smaller one.
    if is_installed "spark,dev" || is_installed "$extras"; then
        return 0
    fi
    # Lock the directory itself: a lock file could be deleted meanwhile.
    exec 9<"$here"
    if command -v flock >/dev/null; then
        flock 9
    fi
    if ! is_installed "spark,dev" && ! is_installed "$extras"; then
        base=$(find_python)
        if [[ $(cat "$root/.venv/place" 2>/dev/null) != "$root" ]] || ! "$python" -c 'import pip' 2>/dev/null; then
            printf 'Making the environment %s with %s\n' "$root/.venv" "$("$base" --version)" >&2
            "$base" -m venv --clear "$root/.venv"
            printf '%s\n' "$root" >"$root/.venv/place"
        fi
        printf 'Installing penstock[%s]; the first time this takes a minute or two\n' "$extras" >&2
        # An editable installation is interpreted: its build needs no mypyc.  A C compiler, if any, builds the native functions.
        PENSTOCK_COMPILED=0 "$python" -m pip install --quiet --disable-pip-version-check --no-input \
            ${how[@]+"${how[@]}"} --editable "$root[$extras]" >&2
        wanted_state "$extras" >"$root/.venv/installed.new"
        mv "$root/.venv/installed.new" "$root/.venv/installed"
    fi
    exec 9<&-
}

ensure_spark() {
    spark=$root/.venv/spark-$1
    if [[ -f $spark/installed ]]; then
        return 0
    fi
    printf 'Installing PySpark %s into %s; the first time this takes a minute or two\n' "$1" "$spark" >&2
    rm -rf -- "$spark" "$spark.new"
    timeout 900 "$python" -m pip install --quiet --no-compile --disable-pip-version-check --no-input --target "$spark.new" \
        "pyspark==$1.*" >&2 || return 1
    touch -- "$spark.new/installed"
    mv -- "$spark.new" "$spark"
}
