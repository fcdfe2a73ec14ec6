/* What the native functions have in common: modules, arguments, results.  docs/how-to/compiled.md */

#ifndef PENSTOCK_NATIVE_ARGUMENTS_H
#define PENSTOCK_NATIVE_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A function that takes its arguments as an array. */
#define NATIVE_FUNCTION(name, twin) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, "See " twin "."}

typedef struct {
    const char *octets;
    size_t size;
} Piece;

#define TEXT(literal) ((Piece){literal, sizeof(literal) - 1})

/* The functions below return -1, with an exception, for an argument that is not what they get. */

static inline int
check_count(const char *name, Py_ssize_t count, Py_ssize_t wanted)
{
    if (count == wanted) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, wanted, count);
    return -1;
}

static inline int
get_octets(PyObject *object, Piece *piece)
{
    if (!PyBytes_Check(object)) {
        PyErr_Format(PyExc_TypeError, "bytes are expected, not %s", Py_TYPE(object)->tp_name);
        return -1;
    }
    *piece = (Piece){PyBytes_AS_STRING(object), (size_t)PyBytes_GET_SIZE(object)};
    return 0;
}

/* CPython 3.11 reads a long in a third of the time of a long long. */
#if LONG_MAX == INT64_MAX
#define AS_SIGNED PyLong_AsLong
#define AS_UNSIGNED PyLong_AsUnsignedLong
#else
#define AS_SIGNED PyLong_AsLongLong
#define AS_UNSIGNED PyLong_AsUnsignedLongLong
#endif

static inline int
get_signed(PyObject *number, int64_t *value)
{
    *value = AS_SIGNED(number);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

/* An integer from 0 to ``limit``. */
static inline int
get_unsigned(PyObject *number, uint64_t limit, uint64_t *value)
{
    *value = AS_UNSIGNED(number);
    if (*value == UINT64_MAX && PyErr_Occurred()) {
        return -1;
    }
    if (*value > limit) {
        PyErr_Format(PyExc_OverflowError, "a number from 0 to %llu is expected, not %llu", (unsigned long long)limit,
                     (unsigned long long)*value);
        return -1;
    }
    return 0;
}

/* A place in octets, or a number of them. */
static inline int
get_size(PyObject *number, size_t *value)
{
    uint64_t found;
    if (get_unsigned(number, PY_SSIZE_T_MAX, &found) < 0) {
        return -1;
    }
    *value = (size_t)found;
    return 0;
}

/* Whether ``octets`` has ``wanted`` at ``at``. */
static inline int
has_at(Piece octets, size_t at, Piece wanted)
{
    return at <= octets.size && octets.size - at >= wanted.size &&
        memcmp(octets.octets + at, wanted.octets, wanted.size) == 0;
}

/* Return the pieces one after the other as bytes. */
static inline PyObject *
joined(const Piece *pieces, size_t count)
{
    size_t size = 0;
    for (size_t number = 0; number < count; number++) {
        size += pieces[number].size;
    }
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (result == NULL) {
        return NULL;
    }
    char *at = PyBytes_AS_STRING(result);
    for (size_t number = 0; number < count; number++) {
        memcpy(at, pieces[number].octets, pieces[number].size);
        at += pieces[number].size;
    }
    return result;
}

/* Return the module, unless the environment asks for the clear forms. */
static inline PyObject *
native_module(struct PyModuleDef *definition)
{
    const char *wanted = getenv("PENSTOCK_NATIVE");
    if (wanted != NULL && strcmp(wanted, "0") == 0) {
        PyErr_SetString(PyExc_ImportError, "PENSTOCK_NATIVE is 0");
        return NULL;
    }
    return PyModule_Create(definition);
}

#endif
