# cmake --install and cpack: programs, manual pages, units, the agent's library for trainers in
# C, the client for those in Python.
include(GNUInstallDirs)
set(doc ${CMAKE_INSTALL_DOCDIR})
set(share ${CMAKE_INSTALL_DATADIR}/hydra)

install(TARGETS hydra-schedd hydra-worker hydractl RUNTIME)
install(TARGETS hydra_agent_shared LIBRARY)

# agent.h and what it includes, below a folder of its own: includes are written from the root.
foreach(header
    common/base/alloc.h common/base/error.h common/base/status.h
    worker/agent/agent.h worker/attn/attn.h worker/attn/layout.h worker/attn/program.h
    worker/compute/compute.h worker/transport/transport.h)
  get_filename_component(dir ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hydra/${dir})
endforeach()
configure_file(worker/agent/hydra_agent.pc.in hydra_agent.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hydra_agent.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES deploy/man/hydractl.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES deploy/man/hydra.conf.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
install(FILES deploy/man/hydra-schedd.8 deploy/man/hydra-worker.8
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
install(FILES deploy/completion/hydractl
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES README.md CHANGELOG.md SECURITY.md LICENSE deploy/hydra.conf.example
  deploy/prometheus/hydra.rules.yaml worker/agent/example_trainer.c DESTINATION ${doc})
install(FILES deploy/python/hydra_client.py deploy/python/megatron_scheduler.py
  DESTINATION ${share}/python)
install(DIRECTORY proto/hydra DESTINATION ${share}/proto FILES_MATCHING PATTERN *.proto)

# Units name the programs in full, and the prefix is known only when installing; the account
# they run as is made from sysusers.d.
set(systemd ${CMAKE_SOURCE_DIR}/deploy/systemd)
install(CODE "
  foreach(unit hydra-schedd.service hydra-worker@.service)
    file(READ ${systemd}/\${unit} text)
    string(REPLACE /usr/bin/hydra \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/hydra
           text \"\${text}\")
    set(to \${CMAKE_INSTALL_PREFIX}/lib/systemd/system/\${unit})
    message(STATUS \"Installing: \$ENV{DESTDIR}\${to}\")
    file(WRITE \$ENV{DESTDIR}\${to} \"\${text}\")
  endforeach()")
install(FILES deploy/systemd/hydra.sysusers DESTINATION lib/sysusers.d RENAME hydra.conf)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hydra)
set(CPACK_PACKAGE_CONTACT "the HyDra engineers <hydra@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
  "load-driven scheduler for dynamic context parallelism in LLM training")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/cmake/postinst)
set(CPACK_STRIP_FILES ON)
include(CPack)
