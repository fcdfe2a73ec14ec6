/* The native form of message_record.py, which says what this does; layout.py describes the octets.

It needs a processor with instructions for CRC-32C (x86-64 with SSE 4.2).  On others the import fails, and
message_record.py is used. */

#include "../../values/native_arguments.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_CRC32C 1
#include <nmmintrin.h>
#endif

enum {
    MESSAGE = 1,
    HEAD_BYTES = 80,
    ENTRY_BYTES = 40,
    LONG_BYTES = 2048, /* from here on the package crc32c, which interleaves three sums, is faster */
};

enum {
    PARTS, ENTRIES, ENCODING, FLAGS, DESTINATION, LOG_OFFSET, SEQUENCE, STORE_TIME, ANNOTATIONS, HEADERS, BODY,
    PRIORITY, TAG_HASH, GROUP_HASH, EXPIRES, QUEUE_OFFSET, ARGUMENTS
};

#ifdef HAS_CRC32C

static PyObject *padding[8];
static PyObject *package_crc32c;

__attribute__((target("sse4.2")))
static uint32_t
checksum(const uint8_t *octets, size_t size, uint32_t before)
{
    uint64_t crc = before ^ UINT32_MAX;
    uint64_t word;
    for (; size >= 8; size -= 8, octets += 8) {
        memcpy(&word, octets, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    for (; size > 0; size--, octets++) {
        crc = _mm_crc32_u8((uint32_t)crc, *octets);
    }
    return (uint32_t)crc ^ UINT32_MAX;
}

/* Continue *crc with ``octets``.  Return -1 with an exception on failure. */
static int
add_to_checksum(uint32_t *crc, const char *octets, size_t size)
{
    if (size < LONG_BYTES) {
        *crc = checksum((const uint8_t *)octets, size, *crc);
        return 0;
    }
    PyObject *view = PyMemoryView_FromMemory((char *)octets, (Py_ssize_t)size, PyBUF_READ);
    PyObject *before = PyLong_FromUnsignedLong(*crc);
    PyObject *result = NULL;
    if (view != NULL && before != NULL) {
        result = PyObject_CallFunctionObjArgs(package_crc32c, view, before, NULL);
    }
    Py_XDECREF(view);
    Py_XDECREF(before);
    if (result == NULL) {
        return -1;
    }
    unsigned long value = PyLong_AsUnsignedLong(result);
    Py_DECREF(result);
    if (value == (unsigned long)-1 && PyErr_Occurred()) {
        return -1;
    }
    *crc = (uint32_t)value;
    return 0;
}

/* Integers of this host are little-endian, as the log's are. */
static inline uint8_t *
put8(uint8_t *at, uint64_t value)
{
    *at = (uint8_t)value;
    return at + 1;
}

static inline uint8_t *
put16(uint8_t *at, uint64_t value)
{
    uint16_t octets = (uint16_t)value;
    memcpy(at, &octets, 2);
    return at + 2;
}

static inline uint8_t *
put32(uint8_t *at, uint64_t value)
{
    uint32_t octets = (uint32_t)value;
    memcpy(at, &octets, 4);
    return at + 4;
}

static inline uint8_t *
put64(uint8_t *at, uint64_t value)
{
    memcpy(at, &value, 8);
    return at + 8;
}

static PyObject *
append_message(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (check_count("append_message", count, ARGUMENTS) < 0) {
        return NULL;
    }
    PyObject *parts = arguments[PARTS], *entries = arguments[ENTRIES];
    if (!PyList_CheckExact(parts) || !PyByteArray_CheckExact(entries)) {
        PyErr_SetString(PyExc_TypeError, "parts is a list, and entries a bytearray");
        return NULL;
    }
    Piece annotations, headers, body;
    uint64_t encoding, flags, destination, log_offset, sequence, priority, tag_hash, group_hash, queue_offset;
    int64_t store_time, expires;
    if (get_unsigned(arguments[ENCODING], UINT8_MAX, &encoding) < 0 ||
        get_unsigned(arguments[FLAGS], UINT16_MAX, &flags) < 0 ||
        get_unsigned(arguments[DESTINATION], UINT32_MAX, &destination) < 0 ||
        get_unsigned(arguments[LOG_OFFSET], UINT64_MAX, &log_offset) < 0 ||
        get_unsigned(arguments[SEQUENCE], UINT64_MAX, &sequence) < 0 ||
        get_signed(arguments[STORE_TIME], &store_time) < 0 ||
        get_unsigned(arguments[PRIORITY], UINT8_MAX, &priority) < 0 ||
        get_unsigned(arguments[TAG_HASH], UINT32_MAX, &tag_hash) < 0 ||
        get_unsigned(arguments[GROUP_HASH], UINT32_MAX, &group_hash) < 0 ||
        get_signed(arguments[EXPIRES], &expires) < 0 ||
        get_unsigned(arguments[QUEUE_OFFSET], UINT64_MAX, &queue_offset) < 0 ||
        get_octets(arguments[ANNOTATIONS], &annotations) < 0 || get_octets(arguments[HEADERS], &headers) < 0 ||
        get_octets(arguments[BODY], &body) < 0) {
        return NULL;
    }
    size_t size = HEAD_BYTES + annotations.size + headers.size + body.size;
    if (size > UINT32_MAX) {
        return PyErr_Format(PyExc_OverflowError, "a record has at most %u octets, not %zu", UINT32_MAX, size);
    }

    PyObject *head = PyBytes_FromStringAndSize(NULL, HEAD_BYTES);
    if (head == NULL) {
        return NULL;
    }
    uint8_t *first = (uint8_t *)PyBytes_AS_STRING(head);
    uint8_t *at = first + 8;
    at = put8(at, MESSAGE);
    at = put8(at, encoding);
    at = put16(at, flags);
    at = put32(at, destination);
    at = put64(at, log_offset);
    at = put64(at, sequence);
    at = put64(at, (uint64_t)store_time);
    at = put32(at, annotations.size);
    at = put32(at, headers.size);
    at = put32(at, body.size);
    at = put32(at, priority); /* and three octets that are 0 */
    at = put32(at, tag_hash);
    at = put32(at, group_hash);
    at = put64(at, (uint64_t)expires);
    put64(at, queue_offset);
    uint32_t crc = checksum(first + 8, HEAD_BYTES - 8, 0);
    if (add_to_checksum(&crc, annotations.octets, annotations.size) < 0 ||
        add_to_checksum(&crc, headers.octets, headers.size) < 0 ||
        add_to_checksum(&crc, body.octets, body.size) < 0) {
        Py_DECREF(head);
        return NULL;
    }
    put32(put32(first, size), crc);

    /* All or nothing: memory may end here. */
    Py_ssize_t part_count = PyList_GET_SIZE(parts);
    Py_ssize_t entries_bytes = PyByteArray_GET_SIZE(entries);
    if (PyByteArray_Resize(entries, entries_bytes + ENTRY_BYTES) < 0) {
        Py_DECREF(head);
        return NULL;
    }
    int failed = PyList_Append(parts, head) < 0 ||
        (annotations.size > 0 && PyList_Append(parts, arguments[ANNOTATIONS]) < 0) ||
        PyList_Append(parts, arguments[HEADERS]) < 0 || PyList_Append(parts, arguments[BODY]) < 0 ||
        (size & 7 && PyList_Append(parts, padding[size & 7]) < 0);
    Py_DECREF(head);
    if (failed) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        (void)PyList_SetSlice(parts, part_count, PyList_GET_SIZE(parts), NULL);
        /* PyByteArray_Resize may take other memory for fewer octets, and fail, too. */
        Py_SET_SIZE((PyVarObject *)entries, entries_bytes);
        PyByteArray_AS_STRING(entries)[entries_bytes] = '\0';
        PyErr_Restore(type, value, traceback);
        return NULL;
    }
    at = (uint8_t *)PyByteArray_AS_STRING(entries) + entries_bytes;
    at = put64(at, log_offset);
    at = put32(at, size);
    at = put8(at, flags);
    at = put8(at, priority);
    at = put8(at, MESSAGE);
    at = put8(at, ~flags);
    at = put32(at, tag_hash);
    at = put32(at, group_hash);
    at = put64(at, (uint64_t)expires);
    put64(at, (uint64_t)store_time);
    Py_RETURN_NONE;
}

/* Where fields are in a record. */
enum {
    AT_SIZE = 0, AT_CRC = 4, AT_TYPE = 8, AT_ENCODING = 9, AT_FLAGS = 10, AT_DESTINATION = 12, AT_LOG_OFFSET = 16,
    AT_STORE_TIME = 32, AT_ANNOTATIONS_LENGTH = 40, AT_HEADERS_LENGTH = 44, AT_BODY_LENGTH = 48, AT_PRIORITY = 52,
    AT_TAG_HASH = 56, AT_GROUP_HASH = 60, AT_EXPIRES = 64, AT_QUEUE_OFFSET = 72
};

static inline uint16_t
take16(const char *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint32_t
take32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t
take64(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static PyObject *
flaw(const char *what)
{
    PyErr_SetString(PyExc_ValueError, what);
    return NULL;
}

/* Put the object into the tuple, which owns it from then on.  Return -1 if there is none. */
static int
put_item(PyObject *tuple, Py_ssize_t number, PyObject *item)
{
    if (item == NULL) {
        return -1;
    }
    PyTuple_SET_ITEM(tuple, number, item);
    return 0;
}

static PyObject *
read_message(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    Piece octets;
    size_t start, size, body_max;
    uint64_t destination, priority, log_offset, queue_offset;
    if (check_count("read_message", count, 8) < 0 || get_octets(arguments[0], &octets) < 0 ||
        get_size(arguments[1], &start) < 0 || get_size(arguments[2], &size) < 0 ||
        get_unsigned(arguments[3], UINT64_MAX, &destination) < 0 ||
        get_unsigned(arguments[4], UINT64_MAX, &priority) < 0 ||
        get_unsigned(arguments[5], UINT64_MAX, &log_offset) < 0 ||
        get_unsigned(arguments[6], UINT64_MAX, &queue_offset) < 0 || get_size(arguments[7], &body_max) < 0) {
        return NULL;
    }
    if (start > octets.size || size > octets.size - start || size < HEAD_BYTES) {
        return flaw("the record reaches past the end of the file");
    }
    const char *record = octets.octets + start;
    uint32_t crc = 0;
    if (take32(record + AT_SIZE) != size) {
        return flaw("its checksum does not match");
    }
    if (add_to_checksum(&crc, record + AT_TYPE, size - AT_TYPE) < 0) {
        return NULL;
    }
    if (take32(record + AT_CRC) != crc) {
        return flaw("its checksum does not match");
    }
    size_t annotations_length = take32(record + AT_ANNOTATIONS_LENGTH);
    size_t headers_length = take32(record + AT_HEADERS_LENGTH);
    size_t body_length = take32(record + AT_BODY_LENGTH);
    if (take64(record + AT_QUEUE_OFFSET) != queue_offset || (uint8_t)record[AT_TYPE] != MESSAGE ||
        take32(record + AT_DESTINATION) != destination || (uint8_t)record[AT_PRIORITY] != priority ||
        take64(record + AT_LOG_OFFSET) != log_offset ||
        HEAD_BYTES + annotations_length + headers_length + body_length != size) {
        return flaw("it is not the record of its entry");
    }
    PyObject *result = PyTuple_New(9);
    if (result == NULL) {
        return NULL;
    }
    const char *annotations = record + HEAD_BYTES, *headers = annotations + annotations_length;
    const char *body = headers + headers_length;
    if (put_item(result, 0, PyLong_FromLong((uint8_t)record[AT_ENCODING])) < 0 ||
        put_item(result, 1, PyLong_FromLong(take16(record + AT_FLAGS))) < 0 ||
        put_item(result, 2, PyLong_FromLongLong((int64_t)take64(record + AT_STORE_TIME))) < 0 ||
        put_item(result, 3, PyLong_FromUnsignedLong(take32(record + AT_TAG_HASH))) < 0 ||
        put_item(result, 4, PyLong_FromUnsignedLong(take32(record + AT_GROUP_HASH))) < 0 ||
        put_item(result, 5, PyLong_FromLongLong((int64_t)take64(record + AT_EXPIRES))) < 0 ||
        put_item(result, 6, PyBytes_FromStringAndSize(annotations, (Py_ssize_t)annotations_length)) < 0 ||
        put_item(result, 7, PyBytes_FromStringAndSize(headers, (Py_ssize_t)headers_length)) < 0 ||
        put_item(result, 8, body_length <= body_max ? PyBytes_FromStringAndSize(body, (Py_ssize_t)body_length)
                                                    : Py_NewRef(Py_None)) < 0) {
        Py_DECREF(result);
        return NULL;
    }
    return result;
}

static PyMethodDef methods[] = {
    NATIVE_FUNCTION(append_message, "message_record.py"),
    NATIVE_FUNCTION(read_message, "message_record.py"),
    {NULL, NULL, 0, NULL},
};

#endif

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "native_message_record",
    .m_size = -1,
#ifdef HAS_CRC32C
    .m_methods = methods,
#endif
};

PyMODINIT_FUNC
PyInit_native_message_record(void)
{
#ifdef HAS_CRC32C
    if (__builtin_cpu_supports("sse4.2")) {
        PyObject *package = PyImport_ImportModule("crc32c");
        if (package == NULL) {
            return NULL;
        }
        package_crc32c = PyObject_GetAttrString(package, "crc32c");
        Py_DECREF(package);
        if (package_crc32c == NULL) {
            return NULL;
        }
        for (int size = 0; size < 8; size++) {
            padding[size] = PyBytes_FromStringAndSize("\0\0\0\0\0\0\0", -size & 7);
            if (padding[size] == NULL) {
                return NULL;
            }
        }
        return native_module(&definition);
    }
#endif
    (void)definition;
    PyErr_SetString(PyExc_ImportError, "this processor has no instructions for CRC-32C that Penstock knows");
    return NULL;
}
