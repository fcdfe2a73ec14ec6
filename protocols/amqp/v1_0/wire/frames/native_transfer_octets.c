/* The native form of transfer_octets.py, which says what each function does. */

#include "../../../../../engine/values/native_arguments.h"

typedef struct {
    char octets[4];
} Number;

/* In the order of the network. */
static Number
number_of(uint64_t value)
{
    return (Number){{(char)(value >> 24), (char)(value >> 16), (char)(value >> 8), (char)value}};
}

static PyObject *
alike_id(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    Piece octets, head, tag_head, tail;
    size_t start, tail_at;
    uint64_t frame_bytes; /* before the first transfer more than a size_t of 32 bits holds */
    if (check_count("alike_id", count, 7) < 0 || get_octets(arguments[0], &octets) < 0 ||
        get_size(arguments[1], &start) < 0 || get_octets(arguments[2], &head) < 0 ||
        get_octets(arguments[3], &tag_head) < 0 || get_octets(arguments[4], &tail) < 0 ||
        get_size(arguments[5], &tail_at) < 0 ||
        get_unsigned(arguments[6], UINT64_MAX, &frame_bytes) < 0) {
        return NULL;
    }
    size_t id_at = start + head.size;
    if (start > octets.size || octets.size - start < frame_bytes || !has_at(octets, start, head) ||
        !has_at(octets, id_at + 4, tag_head) || !has_at(octets, start + tail_at, tail)) {
        return PyLong_FromLong(-1);
    }
    const uint8_t *id = (const uint8_t *)octets.octets + id_at;
    return PyLong_FromUnsignedLong((unsigned long)id[0] << 24 | (unsigned long)id[1] << 16 |
                                   (unsigned long)id[2] << 8 | id[3]);
}

static PyObject *
transfer_head(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    uint64_t frame_bytes, delivery_id;
    Piece middle, flags;
    if (check_count("transfer_head", count, 4) < 0 || get_unsigned(arguments[0], UINT32_MAX, &frame_bytes) < 0 ||
        get_octets(arguments[1], &middle) < 0 || get_unsigned(arguments[2], UINT32_MAX, &delivery_id) < 0 ||
        get_octets(arguments[3], &flags) < 0) {
        return NULL;
    }
    Number size = number_of(frame_bytes), id = number_of(delivery_id);
    const Piece number = {id.octets, sizeof id};
    const Piece pieces[] = {{size.octets, sizeof size}, middle, number, TEXT("\xa0\x04"), number, flags};
    return joined(pieces, Py_ARRAY_LENGTH(pieces));
}

static PyMethodDef methods[] = {
    NATIVE_FUNCTION(alike_id, "transfer_octets.py"),
    NATIVE_FUNCTION(transfer_head, "transfer_octets.py"),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "native_transfer_octets", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC
PyInit_native_transfer_octets(void)
{
    return native_module(&definition);
}
