# Sourced by run and build-compiled, not started by itself: the compiled build that scripts/run makes and uses.
#
#   .venv/built/STATE   an unpacked compiled wheel of the sources with that checksum; there only when it is whole
#   .venv/built/failed  the checksum of sources that could not be compiled
#   .venv/built/log     what the last build said
#
# A process that uses a build holds a shared lock on its directory, so that no later build removes it.

built=$root/.venv/built

# The checksum of all that a wheel of the project in $1 depends on.
source_state() {
    (
        cd -- "$1"
        find config engine protocols gateway penstock pyspark_penstock spark_bridge what_if setup.py pyproject.toml -name __pycache__ -prune -o \
            -type f ! -name '*.so' -print0 | LC_ALL=C sort -z | xargs -0 cksum | cksum | tr ' ' -
    )
}

# Use the compiled build of these sources if there is one.
use_compiled_build() {
    [[ ${PENSTOCK_COMPILED-} != 0 && -d $built ]] || return 1
    local build
    build=$built/$(source_state "$root")
    [[ -d $build ]] && exec 8<"$build" && flock --shared 8 && [[ -d $build ]] || return 1
    export PYTHONPATH=$build${PYTHONPATH:+:$PYTHONPATH}
}

# Make the compiled build of these sources beside the gateway, which starts meanwhile, and say in one line what happens.
make_compiled_build() {
    [[ ${PENSTOCK_COMPILED-} != 0 ]] || return 0
    local missing why=
    missing=$("$python" "$root/setup.py" --missing-tools)
    if [[ -n $missing ]]; then
        why="the compiled build, about twice as fast, needs $(sed -z 's/\n$//; s/\n/ and /g' <<<"$missing")"
    elif ! { mkdir -p -- "$built" && [[ -w $built ]]; } 2>/dev/null; then
        why="no compiled build can be made in $built"
    elif [[ ${PENSTOCK_COMPILED-} != 1 && -f $built/failed && $(<"$built/failed") == "$(source_state "$root")" ]]; then
        why="these sources could not be compiled ($built/log tells why; PENSTOCK_COMPILED=1 tries again)"
    fi
    if [[ -n $why ]]; then
        printf 'Penstock runs interpreted: %s\n' "$why" >&2
        return 0
    fi
    printf 'Penstock starts interpreted and compiles itself beside it for the next start; PENSTOCK_COMPILED=0 prevents that\n' >&2
    # Its own session: Ctrl-C stops the gateway and not the build.
    (PENSTOCK_COMPILED=1 setsid nice -n 19 "$here/build-compiled" --for-run </dev/null >/dev/null 2>&1 &)
}

# The build itself.  It compiles a copy, whose checksum it takes: sources may change meanwhile.
build_for_run() {
    local new=$built/new state old isolation=()
    mkdir -p -- "$built"
    exec 7<"$built"
    flock --exclusive --nonblock 7 || return 0 # another start makes it
    exec >"$built/log" 2>&1
    rm -rf -- "$new"
    mkdir -- "$new" "$new/sources"
    (cd -- "$root" && tar --create --exclude __pycache__ --exclude '*.so' config engine protocols gateway penstock pyspark_penstock spark_bridge what_if \
        pyproject.toml setup.py README.md LICENSE) | tar --extract --directory "$new/sources"
    state=$(source_state "$new/sources")
    if [[ -d $built/$state ]]; then # another start has made it meanwhile
        rm -rf -- "$new"
        return 0
    fi
    # Without network the environment's own mypyc serves.
    ! "$python" -c 'import mypyc, setuptools' 2>/dev/null || isolation=(--no-build-isolation)
    if (cd -- "$new" && "$python" -m pip wheel --disable-pip-version-check --no-input --no-deps "${isolation[@]}" \
        --wheel-dir . ./sources) && "$python" -m zipfile -e "$new"/penstock-*.whl "$new/tree"; then
        for old in "$built"/*-*; do
            flock --exclusive --nonblock "$old" rm -rf -- "$old" || true # in use
        done
        mv -- "$new/tree" "$built/$state"
        rm -f -- "$built/failed"
    else
        printf '%s\n' "$state" >"$built/failed"
    fi
    rm -rf -- "$new"
}
