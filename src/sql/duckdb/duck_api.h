/*
 * duck_api.h: DuckDB's C API, declared as far as it is used, so that neither its header nor the
 * library is needed at build time. Its handles are pointers to what only the library knows.
 */
#ifndef PITOT_SQL_DUCK_API_H
#define PITOT_SQL_DUCK_API_H

#include <stdbool.h>

#include "base/error.h"

enum duck_type {
	DUCK_BOOLEAN = 1,
	DUCK_TINYINT,
	DUCK_SMALLINT,
	DUCK_INTEGER,
	DUCK_BIGINT,
	DUCK_UTINYINT,
	DUCK_USMALLINT,
	DUCK_UINTEGER,
	DUCK_UBIGINT,
	DUCK_FLOAT,
	DUCK_DOUBLE,
	DUCK_HUGEINT = 16,
	DUCK_VARCHAR = 17,
	DUCK_BLOB = 18,
	DUCK_DECIMAL = 19,
	DUCK_UHUGEINT = 32,
	DUCK_SQLNULL = 36,
};

#define DUCK_SELECT 1 /* type of a statement */
#define DUCK_OUT_OF_MEMORY 33 /* type of an error */
#define DUCK_CHUNK 2048 /* rows of a chunk at most */

/* Passed by value. */
struct duck_result {
	uint64_t unused[3];
	void *unused_too[2];
	void *data;
};

/* A text in a vector: up to 12 bytes are in it, longer ones are elsewhere. */
struct duck_text {
	uint32_t length;
	union {
		char bytes[12];
		struct {
			char prefix[4];
			const char *text;
		} __attribute__((packed));
	};
} __attribute__((packed, aligned(8)));
_Static_assert(sizeof(struct duck_text) == 16, "DuckDB's layout");

typedef void duck_free(void *data);
typedef void duck_call(void *info);
typedef void duck_scan(void *info, void *chunk);
typedef void duck_scalar(void *info, void *chunk, void *vector);
typedef void duck_replace(void *info, const char *table, void *user);

/* F(type, name, arguments): duckdb_<name>. Functions that can fail return 0, but for handles. */
#define DUCK_FUNCTIONS(F)                                                                          \
	F(const char *, library_version, (void))                                                   \
	F(void, free, (void *memory))                                                              \
	F(int, create_config, (void **config))                                                     \
	F(int, set_config, (void *config, const char *name, const char *value))                    \
	F(void, destroy_config, (void **config))                                                   \
	F(int, open_ext, (const char *path, void **database, void *config, char **error))          \
	F(void, close, (void **database))                                                          \
	F(int, connect, (void *database, void **connection))                                       \
	F(void, disconnect, (void **connection))                                                   \
	F(void, interrupt, (void *connection))                                                     \
	F(int, query, (void *connection, const char *text, struct duck_result *result))            \
	F(int, prepare, (void *connection, const char *text, void **prepared))                     \
	F(const char *, prepare_error, (void *prepared))                                           \
	F(void, destroy_prepare, (void **prepared))                                                \
	F(int, prepared_statement_type, (void *prepared))                                          \
	F(uint64_t, prepared_statement_column_count, (void *prepared))                             \
	F(const char *, prepared_statement_column_name, (void *prepared, uint64_t column))         \
	F(void *, prepared_statement_column_logical_type, (void *prepared, uint64_t column))       \
	F(int, bind_varchar_length,                                                                \
	  (void *prepared, uint64_t number, const char *text, uint64_t length))                    \
	F(int, execute_prepared_streaming, (void *prepared, struct duck_result *result))           \
	F(void *, fetch_chunk, (struct duck_result result))                                        \
	F(const char *, result_error, (struct duck_result * result))                               \
	F(int, result_error_type, (struct duck_result * result))                                   \
	F(void, destroy_result, (struct duck_result * result))                                     \
	F(uint64_t, data_chunk_get_size, (void *chunk))                                            \
	F(void, data_chunk_set_size, (void *chunk, uint64_t size))                                 \
	F(void *, data_chunk_get_vector, (void *chunk, uint64_t column))                           \
	F(void, destroy_data_chunk, (void **chunk))                                                \
	F(void *, vector_get_data, (void *vector))                                                 \
	F(uint64_t *, vector_get_validity, (void *vector))                                         \
	F(void, vector_ensure_validity_writable, (void *vector))                                   \
	F(void, vector_assign_string_element_len,                                                  \
	  (void *vector, uint64_t row, const char *text, uint64_t length))                         \
	F(uint64_t, vector_size, (void))                                                           \
	F(void *, create_logical_type, (int type))                                                 \
	F(int, get_type_id, (void *logical_type))                                                  \
	F(uint8_t, decimal_scale, (void *logical_type))                                            \
	F(int, decimal_internal_type, (void *logical_type))                                        \
	F(void, destroy_logical_type, (void **logical_type))                                       \
	F(void *, create_varchar, (const char *text))                                              \
	F(char *, get_varchar, (void *value))                                                      \
	F(void, destroy_value, (void **value))                                                     \
	F(void *, create_table_function, (void))                                                   \
	F(void, table_function_set_name, (void *function, const char *name))                       \
	F(void, table_function_add_parameter, (void *function, void *logical_type))                \
	F(void, table_function_set_extra_info, (void *function, void *user, duck_free *))          \
	F(void, table_function_set_bind, (void *function, duck_call *))                            \
	F(void, table_function_set_init, (void *function, duck_call *))                            \
	F(void, table_function_set_local_init, (void *function, duck_call *))                      \
	F(void, table_function_set_function, (void *function, duck_scan *))                        \
	F(void, table_function_supports_projection_pushdown, (void *function, bool yes))           \
	F(int, register_table_function, (void *connection, void *function))                        \
	F(void, destroy_table_function, (void **function))                                         \
	F(void *, bind_get_extra_info, (void *info))                                               \
	F(void *, bind_get_parameter, (void *info, uint64_t number))                               \
	F(void, bind_add_result_column, (void *info, const char *name, void *logical_type))        \
	F(void, bind_set_bind_data, (void *info, void *data, duck_free *))                         \
	F(void, bind_set_cardinality, (void *info, uint64_t rows, bool is_exact))                  \
	F(void, bind_set_error, (void *info, const char *text))                                    \
	F(void *, init_get_bind_data, (void *info))                                                \
	F(uint64_t, init_get_column_count, (void *info))                                           \
	F(uint64_t, init_get_column_index, (void *info, uint64_t number))                          \
	F(void, init_set_init_data, (void *info, void *data, duck_free *))                         \
	F(void, init_set_max_threads, (void *info, uint64_t threads))                              \
	F(void, init_set_error, (void *info, const char *text))                                    \
	F(void *, function_get_init_data, (void *info))                                            \
	F(void *, function_get_local_init_data, (void *info))                                      \
	F(void, function_set_error, (void *info, const char *text))                                \
	F(void, add_replacement_scan, (void *database, duck_replace *, void *user, duck_free *))   \
	F(void, replacement_scan_set_function_name, (void *info, const char *name))                \
	F(void, replacement_scan_add_parameter, (void *info, void *value))                         \
	F(void *, create_scalar_function, (void))                                                  \
	F(void, scalar_function_set_name, (void *function, const char *name))                      \
	F(void, scalar_function_add_parameter, (void *function, void *logical_type))               \
	F(void, scalar_function_set_return_type, (void *function, void *logical_type))             \
	F(void, scalar_function_set_extra_info, (void *function, void *user, duck_free *))         \
	F(void, scalar_function_set_function, (void *function, duck_scalar *))                     \
	F(int, register_scalar_function, (void *connection, void *function))                       \
	F(void, destroy_scalar_function, (void **function))                                        \
	F(void *, scalar_function_get_extra_info, (void *info))                                    \
	F(void, scalar_function_set_error, (void *info, const char *text))

struct duck_api {
#define MEMBER(type, name, arguments) type(*name) arguments;
	DUCK_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* Its callbacks know nothing but handles, so the functions are those of the process. */
extern struct duck_api duck_api;

/*
 * Loads the library into duck_api: $PITOT_DUCKDB, or libduckdb.so from where libraries are. It is
 * never unloaded. 0 or E_UNSUPPORTED with the way to get it.
 */
int duck_api_load(struct error *e) MUST_USE;

#endif
