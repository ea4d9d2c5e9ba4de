/*
 * page.h - the files of the inspection page, as bytes in the program.
 *
 * What     Made by the build from page/; static storage.
 */
#ifndef HYD_SCHEDULER_DAEMON_HTTP_PAGE_H
#define HYD_SCHEDULER_DAEMON_HTTP_PAGE_H

#include <stddef.h>

extern const unsigned char hyd_page_index[];
extern const size_t hyd_page_index_bytes;
extern const unsigned char hyd_page_app[];
extern const size_t hyd_page_app_bytes;
extern const unsigned char hyd_page_draw[];
extern const size_t hyd_page_draw_bytes;
extern const unsigned char hyd_page_api[];
extern const size_t hyd_page_api_bytes;
extern const unsigned char hyd_page_text[];
extern const size_t hyd_page_text_bytes;
extern const unsigned char hyd_page_whatif[];
extern const size_t hyd_page_whatif_bytes;
extern const unsigned char hyd_page_style[];
extern const size_t hyd_page_style_bytes;

#endif
